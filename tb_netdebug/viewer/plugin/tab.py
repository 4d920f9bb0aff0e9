"""Our tab as TensorBoard sees it: a name, constant metadata, and routes imported by the first request."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext

    from tb_netdebug.viewer.plugin.application import Application
    from tb_netdebug.viewer.plugin.stand_in import StandIn

logger = logging.getLogger(__name__)

NAME = "netdebug"
ENTRY_MODULE = "/index.js"
# Made on import, within the guarded part of the start: an exception in `frontend_metadata` would break the
# list of tabs, and with it TensorBoard's whole page.
METADATA = base_plugin.FrontendMetadata(es_module_path=ENTRY_MODULE, tab_name="NetDebug")


class NetDebugPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    """The plugin. It opens no file and starts no thread before the first request.

    With `--netdebug_listen` it starts at once.
    """

    plugin_name = NAME

    def __init__(self, context: TBContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._application: Application | None = None
        self._logged = ""
        if getattr(context.flags, "netdebug_listen", None):
            threading.Thread(target=self._listen, name="netdebug-start", daemon=True).start()

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        # TensorBoard looks the entry module up by its path; our own table has the other routes.
        return {ENTRY_MODULE: self.serve, "/*": self.serve}

    def is_active(self) -> bool:
        # Always active: it reads any event file, and should be there before training starts. TensorBoard asks
        # often.
        return True

    def frontend_metadata(self) -> FrontendMetadata:
        return METADATA

    def data_plugin_names(self) -> tuple[str, ...]:
        return (NAME,)

    def serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            application = self._started()
        except Exception as error:
            return self._excuse(error).serve(environ, start_response)
        return application(environ, start_response)

    def _listen(self) -> None:
        """Start the collector: other machines do not wait until a user opens the page."""
        try:
            self._started().service.collecting.start()
        except Exception as error:
            self._excuse(error)

    def _excuse(self, error: Exception) -> StandIn:
        from tb_netdebug.viewer.plugin.stand_in import StandIn

        if self._logged != repr(error):  # log it once, not for every request
            self._logged = repr(error)
            logger.exception("NetDebug could not be started.")
        return StandIn(error)

    def _started(self) -> Application:
        with self._lock:
            if self._application is None:
                from tb_netdebug.viewer.plugin.application import Application

                self._application = Application.of(self._context)
            return self._application
