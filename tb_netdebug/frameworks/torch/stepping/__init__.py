"""The debugger's side of torch: where a training can be stopped, and its tensors by name."""
