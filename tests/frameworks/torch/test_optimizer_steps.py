"""The steps of all optimizers, told to listeners that come and go while other threads train."""

from __future__ import annotations

import threading

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers

from tb_netdebug.frameworks.torch import optimizer_steps


def sgd() -> Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def test_listeners_hear_the_steps_while_they_listen() -> None:
    """In the order in which they came; nothing of ours is left in torch afterwards."""
    hooks = len(optimizers._global_optimizer_pre_hooks), len(optimizers._global_optimizer_post_hooks)
    heard: list[str] = []
    first = optimizer_steps.BEGINNING.listen(lambda *_: heard.append("first"))
    second = optimizer_steps.BEGINNING.listen(lambda *_: heard.append("second"))
    ended = optimizer_steps.ENDED.listen(lambda *_: heard.append("ended"))
    optimizer = sgd()
    optimizer.step()
    first.remove()
    first.remove()
    optimizer.step()
    second.remove()
    ended.remove()
    optimizer.step()
    assert ["first", "second", "ended", "second", "ended"] == heard
    assert hooks == (
        len(optimizers._global_optimizer_pre_hooks), len(optimizers._global_optimizer_post_hooks),
    )  # fmt: skip


def test_who_comes_and_goes_disturbs_no_training() -> None:
    """A listener more, or less, in the middle of a step of another thread."""
    kept = optimizer_steps.BEGINNING.listen(lambda *_: None)
    failed: list[Exception] = []
    is_over = threading.Event()

    def train() -> None:
        optimizer = sgd()
        try:
            while not is_over.is_set():
                optimizer.step()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3000):
        optimizer_steps.BEGINNING.listen(lambda *_: None).remove()
    is_over.set()
    for thread in threads:
        thread.join()
    kept.remove()
    assert [] == failed


def test_the_last_to_hear_may_stay_the_last() -> None:
    """Also when several threads ask for it; nobody comes back who has left."""
    heard: list[str] = []
    last = optimizer_steps.ENDED.listen(lambda *_: heard.append("last"))
    other = optimizer_steps.ENDED.listen(lambda *_: heard.append("other"))
    threads = [threading.Thread(target=last.go_last) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    optimizer = sgd()
    optimizer.step()
    last.remove()
    last.go_last()
    optimizer.step()
    other.remove()
    assert ["other", "last", "other"] == heard
