"""Statistics of tensors on an accelerator."""
