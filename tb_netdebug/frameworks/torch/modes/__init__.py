"""Train and evaluation mode."""
