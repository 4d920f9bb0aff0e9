"""The debugger's side of torch: places where a run can be paused, and its tensors by name."""
