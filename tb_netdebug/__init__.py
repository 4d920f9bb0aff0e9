"""NetDebug: records a training, says what is wrong with it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tb_netdebug.core import start_folder as start_folder
from tb_netdebug.version import __version__

if TYPE_CHECKING:
    from tb_netdebug.debugger.trainer.session import pause_in_code as breakpoint
    from tb_netdebug.frameworks.torch.numerics.replay import replay
    from tb_netdebug.integrations.keras_callback import KerasCallback
    from tb_netdebug.integrations.lightning import LightningCallback
    from tb_netdebug.integrations.optuna import OptunaPruning
    from tb_netdebug.integrations.transformers import TransformersCallback
    from tb_netdebug.judging.logdir import check
    from tb_netdebug.training.excepthook import install_excepthook
    from tb_netdebug.training.monitor import Monitor
    from tb_netdebug.training.watch import watch

__all__ = [
    "KerasCallback",
    "LightningCallback",
    "Monitor",
    "OptunaPruning",
    "TransformersCallback",
    "__version__",
    "breakpoint",
    "check",
    "install_excepthook",
    "replay",
    "watch",
]

# Imported when they are first used: `import tb_netdebug` alone stays fast and touches no framework.
_PLACES = {
    "KerasCallback": "tb_netdebug.integrations.keras_callback",
    "LightningCallback": "tb_netdebug.integrations.lightning",
    "Monitor": "tb_netdebug.training.monitor",
    "OptunaPruning": "tb_netdebug.integrations.optuna",
    "TransformersCallback": "tb_netdebug.integrations.transformers",
    "breakpoint": "tb_netdebug.debugger.trainer.session:pause_in_code",
    "check": "tb_netdebug.judging.logdir",
    "install_excepthook": "tb_netdebug.training.excepthook",
    "load_ipython_extension": "tb_netdebug.cli.notebook",
    "replay": "tb_netdebug.frameworks.torch.numerics.replay",
    "unload_ipython_extension": "tb_netdebug.cli.notebook",
    "watch": "tb_netdebug.training.watch",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
