"""Stopping a training of Keras, and looking at what it has in memory; knows no backend but in `on_tensorflow`."""
