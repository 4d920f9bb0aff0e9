"""Where NaN and infinities come from, and capsules of the steps in which they came."""
