"""Numbers and signals that rules judge, computed from the records of one run."""
