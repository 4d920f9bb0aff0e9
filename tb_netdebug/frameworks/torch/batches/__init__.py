"""What goes into the model."""
