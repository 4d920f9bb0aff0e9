"""The PyTorch side of the recorder: the monitor reaches it through `adapter.TorchAdapter`."""
