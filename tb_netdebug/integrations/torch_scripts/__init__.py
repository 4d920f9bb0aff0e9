"""Finds the training runs of a PyTorch program that does not know it is watched, for `training.zero_code`."""
