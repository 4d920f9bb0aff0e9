"""What stands in front of a TensorBoard on the network: it ends https, and passes on all bytes."""

from __future__ import annotations

import asyncio
import ssl
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType


class HttpsProxy:
    """Listens on a free port of this machine; `keys` is a folder with cert.pem and key.pem."""

    def __init__(self, target: int, keys: Path) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
        self._thread = threading.Thread(target=self._run, name="proxy with https")
        self._port: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._ending: asyncio.Event

    @property
    def url(self) -> str:
        return f"https://localhost:{self._port.result()}"

    def __enter__(self) -> HttpsProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._port.result()
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self._port.set_result(server.sockets[0].getsockname()[1])
        await self._ending.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        ways = [asyncio.ensure_future(passed_on(*way)) for way in ((reader, back), (there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.close()
            back.close()


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either end is gone."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
