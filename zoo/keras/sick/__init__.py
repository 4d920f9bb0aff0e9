"""Trainings in Keras in which something is wrong; the decorator says what."""
