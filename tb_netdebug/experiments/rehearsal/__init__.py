"""Runs a user's script for another purpose: up to one optimizer step, and with no effect outside.

`hold.hold` starts a task in a process whose writes reach a copy-on-write folder only; inside of it
`stop.run_to_step` runs the script and gives back what it had, and `definitions.Definitions` takes what a name
in a file or module means. Hold and stop know nothing of each other.
"""
