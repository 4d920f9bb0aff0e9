"""PyTorch behind the seam of the monitor."""
