"""To come."""

from __future__ import annotations

from tb_netdebug.capture.torch_probe import ProbeContext


class ModeProbe:
    """To come (see `torch_probes.Probe`)."""

    def __init__(self, context: ProbeContext) -> None:
        self._context = context

    def end_step(self) -> None:
        """Nothing yet."""

    def close(self) -> None:
        """Nothing yet."""
