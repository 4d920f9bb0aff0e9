"""Probes of train and evaluation mode."""
