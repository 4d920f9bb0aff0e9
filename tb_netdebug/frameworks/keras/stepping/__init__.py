"""The debugger's workbench for a Keras run; only `on_tensorflow` knows a backend."""
