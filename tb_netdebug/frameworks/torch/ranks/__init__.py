"""Several processes that train one model: the steps they sample together, and merged sharded tensors."""
