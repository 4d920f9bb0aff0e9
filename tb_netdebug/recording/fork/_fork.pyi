"""The fork itself, and all that has to be done before a line of Python runs in the child."""

CAN_CONFINE: bool  # on this kind of machine

def fork_confined(answer: int, allowed: bytes, /) -> tuple[int, int]:
    """Return the child's number and a descriptor that stands for it; in the child (0, the answer's)."""
