"""Trainings of a program that knows nothing of being watched."""
