"""Judges what was recorded: event files into findings."""
