"""The helper process beside the trainer, and the collector: the only place where gRPC is imported."""
