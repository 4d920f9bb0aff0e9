"""Finds where NaN and infinities come from, and writes capsules of the steps in which they came."""
