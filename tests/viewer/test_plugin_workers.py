"""Requests have their work done by a few threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tb_netdebug.viewer.plugin.workers import Workers


def test_many_who_ask_share_a_few_threads() -> None:
    """Each gets its own result."""
    workers = Workers(2)
    names: set[str] = set()

    def work(number: int) -> int:
        def action() -> int:
            names.add(f"{threading.current_thread().name} {threading.get_ident()}")
            return number * number

        return workers.run(action)

    with ThreadPoolExecutor(8) as clients:
        assert [number * number for number in range(100)] == list(clients.map(work, range(100)))
    workers.close()
    assert 1 <= len(names) <= 2
    assert all(name.startswith("netdebug-worker") for name in names)


def test_a_mistake_reaches_who_asked() -> None:
    """And the thread goes on."""
    workers = Workers(1)
    with pytest.raises(ZeroDivisionError):
        workers.run(lambda: 1 / 0)
    assert 5 == workers.run(lambda: 5)
    workers.close()


def test_without_work_there_are_no_threads() -> None:
    """Closing what never began is fine, and twice, too."""
    before = threading.active_count()
    workers = Workers(3)
    assert before == threading.active_count()
    workers.close()
    workers.close()
