"""Statistics of tensors on an accelerator, computed there. `reader.TensorReader` uses `DeviceSummaries`."""
