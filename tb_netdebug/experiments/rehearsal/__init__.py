"""Runs a user's script for another purpose: up to one optimizer step, and without effects outside.

`hold.hold` starts a task in a process whose writes go to a copy-on-write folder. In that process,
`stop.run_to_step` runs the script and returns what it had built, and `definitions.Definitions` looks up a
name in a file or module. Hold and stop do not depend on each other.
"""
