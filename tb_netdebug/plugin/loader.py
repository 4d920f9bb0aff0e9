"""The entry point that TensorBoard imports at its start.

Whatever goes wrong here keeps TensorBoard from starting at all, so this imports nothing that TensorBoard has
not imported itself. Everything else happens in `load`, and what fails there is shown in our own tab.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from tensorboard.plugins.base_plugin import TBContext, TBPlugin

logger = logging.getLogger(__name__)


class NetDebugLoader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Makes the plugin, or else a tab that says why there is none."""

    def load(self, context: TBContext) -> TBPlugin | None:
        try:
            from tb_netdebug.plugin.tab import NetDebugPlugin

            return NetDebugPlugin(context)
        except Exception as error:
            logger.exception("NetDebug could not be loaded; TensorBoard goes on without it.")
            return stand_in(error)


def stand_in(error: Exception) -> TBPlugin | None:
    """The stand-in; None, which TensorBoard understands as no plugin, when not even that works."""
    try:
        from tb_netdebug.plugin.stand_in import StandIn

        return StandIn(error)
    except Exception:
        logger.exception("NetDebug cannot even say what is wrong.")
        return None
