"""Trainings in Keras that learn what they should."""
