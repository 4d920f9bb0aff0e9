"""Our tab as TensorBoard knows it: a name, constant metadata, and routes whose code is imported by the first
request."""

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
# Made when this is imported, that is within the guarded part of the start: an exception in
# `frontend_metadata` would take the list of tabs down, and with it all of TensorBoard's page.
METADATA = base_plugin.FrontendMetadata(es_module_path=ENTRY_MODULE, tab_name="NetDebug")


class NetDebugPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    """Opens no file and starts no thread before the first request, unless it was told where to listen."""

    plugin_name = NAME

    def __init__(self, context: TBContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._application: Application | None = None
        self._logged = ""
        if getattr(context.flags, "netdebug_listen", None):
            threading.Thread(target=self._listen, name="netdebug-start", daemon=True).start()

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        # TensorBoard wants to find the entry module by its path; our own table has the rest.
        return {ENTRY_MODULE: self.serve, "/*": self.serve}

    def is_active(self) -> bool:
        # It reads any event file, and is to be there before the training starts. TensorBoard asks often.
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
        """Trainings on other machines do not wait for somebody who opens the page."""
        try:
            self._started().service.collecting.start()
        except Exception as error:
            self._excuse(error)

    def _excuse(self, error: Exception) -> StandIn:
        from tb_netdebug.viewer.plugin.stand_in import StandIn

        if self._logged != repr(error):  # once, not for every request of the page
            self._logged = repr(error)
            logger.exception("NetDebug could not be started.")
        return StandIn(error)

    def _started(self) -> Application:
        with self._lock:
            if self._application is None:
                from tb_netdebug.viewer.plugin.application import Application

                self._application = Application.of(self._context)
            return self._application
