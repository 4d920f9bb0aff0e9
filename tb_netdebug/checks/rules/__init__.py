"""All rules, one family per module; the engine asks those in `ALL`."""

from __future__ import annotations

from tb_netdebug.checks.rule import Rule
from tb_netdebug.checks.rules.activations import RULES as ACTIVATIONS
from tb_netdebug.checks.rules.data import RULES as DATA
from tb_netdebug.checks.rules.gradients import RULES as GRADIENTS
from tb_netdebug.checks.rules.loss import RULES as LOSS
from tb_netdebug.checks.rules.loss_input import RULES as LOSS_INPUT
from tb_netdebug.checks.rules.modes import RULES as MODES
from tb_netdebug.checks.rules.numbers import RULES as NUMBERS
from tb_netdebug.checks.rules.system import RULES as SYSTEM
from tb_netdebug.checks.rules.weights import RULES as WEIGHTS

ALL: tuple[type[Rule], ...] = (
    *NUMBERS, *LOSS_INPUT, *DATA, *MODES, *WEIGHTS, *GRADIENTS, *ACTIVATIONS, *LOSS, *SYSTEM,
)  # fmt: skip
