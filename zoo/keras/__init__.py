"""Programs of Keras on TensorFlow: each runs in an interpreter of its own."""
