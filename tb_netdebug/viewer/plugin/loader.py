"""The entry point that TensorBoard imports when it starts.

Any failure here keeps TensorBoard from starting at all, so this module imports nothing that TensorBoard has
not imported itself. Everything else happens in `load`, and our own tab shows what fails there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    import argparse

    from tensorboard.plugins.base_plugin import TBContext, TBPlugin

logger = logging.getLogger(__name__)

# None of the values is secret: TensorBoard shows every flag to everybody at /data/environment. All are parsed
# as text, because argparse exits on a value that it does not accept.
FLAGS = {
    "netdebug_listen": (
        "HOST:PORT",
        "The address at which NetDebug accepts runs from other machines. Default: a free port, for this "
        "machine only, from the first visit to the NetDebug tab.",
    ),
    "netdebug_tls_cert": ("FILE", "The certificate (PEM) for --netdebug_listen."),
    "netdebug_tls_key": ("FILE", "The private key (PEM) of that certificate."),
    "netdebug_token_file": ("FILE", "A file with the token that agents must present."),
    "netdebug_allowed_hosts": (
        "NAMES",
        "More host names, separated by commas, under which browsers may reach NetDebug's tab.",
    ),
}


class NetDebugLoader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Creates the plugin, or else a tab that shows why there is none."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        try:
            group = parser.add_argument_group("NetDebug")
            for name, (value, meaning) in FLAGS.items():
                group.add_argument(f"--{name}", metavar=value, type=str, default="", help=meaning)
        except Exception:
            logger.exception("NetDebug's flags could not be added; TensorBoard continues without them.")

    def load(self, context: TBContext) -> TBPlugin | None:
        try:
            from tb_netdebug.viewer.plugin.tab import NetDebugPlugin

            return NetDebugPlugin(context)
        except Exception as error:
            logger.exception("NetDebug could not be loaded; TensorBoard continues without it.")
            return stand_in(error)


def stand_in(error: Exception) -> TBPlugin | None:
    """Return the stand-in, or None if even that fails, which TensorBoard takes as no plugin."""
    try:
        from tb_netdebug.viewer.plugin.stand_in import StandIn

        return StandIn(error)
    except Exception:
        logger.exception("NetDebug could not show what is wrong.")
        return None
