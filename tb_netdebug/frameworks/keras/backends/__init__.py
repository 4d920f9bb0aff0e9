"""Keras on PyTorch and on JAX, built from parts of `frameworks/keras/`, which serves TensorFlow."""
