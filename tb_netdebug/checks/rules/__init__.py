"""All rules, one family a module."""

from __future__ import annotations

from ..rule import Rule
from .activations import RULES as ACTIVATIONS
from .data import RULES as DATA
from .gradients import RULES as GRADIENTS
from .loss import RULES as LOSS
from .loss_input import RULES as LOSS_INPUT
from .modes import RULES as MODES
from .numbers import RULES as NUMBERS
from .system import RULES as SYSTEM
from .weights import RULES as WEIGHTS

ALL: tuple[type[Rule], ...] = (
    *NUMBERS, *LOSS_INPUT, *DATA, *MODES, *WEIGHTS, *GRADIENTS, *ACTIVATIONS, *LOSS, *SYSTEM,
)  # fmt: skip
