"""Keras on PyTorch and on JAX; on TensorFlow it is `capture/keras/`, whose parts are used here."""
