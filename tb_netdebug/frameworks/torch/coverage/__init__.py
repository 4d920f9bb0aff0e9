"""Which parameters of the watched models are trained, and which are not."""
