"""A cable between two ends of a connection that can be cut so that neither end hears of it."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType


class HalfOpen:
    """Listens at `address`, and passes on what comes until `cut`; then both sides stay open and silent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._is_cut = threading.Event()
        self._is_over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._others: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._pass_on, name="cable", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> HalfOpen:
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._selector.close()
        for each in (self._listening, *self._others):
            each.close()

    def cut(self) -> None:
        self._is_cut.set()

    def _pass_on(self) -> None:
        while not self._is_over.is_set():
            for key, _ in self._selector.select(0.02):
                if key.fileobj is self._listening:
                    self._connect()
                elif not self._is_cut.is_set():
                    assert isinstance(key.fileobj, socket.socket)
                    self._pass(key.fileobj)
                else:
                    self._selector.unregister(key.fileobj)

    def _connect(self) -> None:
        ours, _ = self._listening.accept()
        theirs = socket.create_connection(("127.0.0.1", self._port))
        for one, other in ((ours, theirs), (theirs, ours)):
            self._others[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass(self, source: socket.socket) -> None:
        data = source.recv(65536)
        if data:
            self._others[source].sendall(data)
        else:
            self._selector.unregister(source)
            self._others[source].shutdown(socket.SHUT_WR)
