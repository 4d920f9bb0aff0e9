"""Applies the checks to recordings: event files, or the records of a run in progress, into findings."""
