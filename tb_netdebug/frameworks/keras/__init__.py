"""Everything that imports TensorFlow or Keras to record and debug a Keras run."""
