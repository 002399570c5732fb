"""Makes the site of documentation; `make docs` calls it."""
