"""A package with a command line, relative imports and a training."""
