"""Probes of what goes into the model: its inputs, their repetition and the loader that they come from."""
