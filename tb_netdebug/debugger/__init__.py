"""The debugger: pauses a run, steps it, and looks inside. See README.md."""
