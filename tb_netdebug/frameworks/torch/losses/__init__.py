"""What loss functions are given, and what becomes of it."""
