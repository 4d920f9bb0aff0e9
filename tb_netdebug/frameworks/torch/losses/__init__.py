"""Probes of losses: what loss functions are given, what the loss is, and what becomes of its gradients."""
