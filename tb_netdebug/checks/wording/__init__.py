"""Texts that people read: of findings, and of the numbers and names in them."""
