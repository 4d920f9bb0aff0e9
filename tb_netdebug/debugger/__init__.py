"""Pauses a running training, steps it, and looks inside: see README.md."""
