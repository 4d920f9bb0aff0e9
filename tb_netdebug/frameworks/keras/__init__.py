"""Everything that knows TensorFlow and Keras."""
