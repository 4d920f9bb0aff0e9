"""Keras on PyTorch and on JAX; on TensorFlow it is `frameworks/keras/`, whose parts are used here."""
