"""Files of weights by what is in them: which kind, and how to read it. Writers are elsewhere."""
