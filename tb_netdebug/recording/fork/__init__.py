"""Asks something of a copy of this process, which can change nothing outside of itself."""
