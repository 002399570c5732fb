"""Stands before TensorFlow on the path of processes that start sooner without it."""

raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
