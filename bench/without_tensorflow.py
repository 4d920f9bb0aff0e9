"""Hides TensorFlow, which is installed for the part about Keras, from whatever else is measured.

TensorBoard and `SummaryWriter` read and write through TensorFlow where they find it. TensorBoard then needs
three times the memory and seconds more to start: that would be measured, and not what NetDebug does.
"""

from __future__ import annotations

# What Python calls a module that cannot be imported.
PREAMBLE = "import sys\nsys.modules['tensorflow'] = None\n"


def hide() -> None:
    """In this process; those that it starts need the preamble, or never ask for TensorFlow."""
    exec(PREAMBLE, {})
