"""Trainings that are sick or healthy, to measure how well the checks tell them apart: `make zoo`."""
