"""What is trained, and what is not."""
