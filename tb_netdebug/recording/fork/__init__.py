"""Run something in a forked copy of this process, which can change nothing outside of itself."""
