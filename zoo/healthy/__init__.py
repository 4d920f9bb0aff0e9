"""Trainings that learn what they should, many of them odd to look at."""
