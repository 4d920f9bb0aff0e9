"""Trainings in which something is wrong; the decorator says what."""
