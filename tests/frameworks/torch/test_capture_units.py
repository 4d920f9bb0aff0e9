"""Which units of a layer are active."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import recorded


def test_a_dead_unit_and_a_saturated_one_are_inactive(logdir: Path) -> None:
    """A ReLU unit that gives only zeros and a tanh unit that gives only ones are not active."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3), nn.Tanh())
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([1.0, -1.0, 2.0]))
        model[2].weight.zero_()
        model[2].bias.copy_(torch.tensor([0.5, -0.5, 20.0]))

    def steps(monitor: nd.Monitor) -> None:
        model(torch.randn(5, 4)).sum().backward()
        monitor.step()

    found = recorded(logdir, model, None, steps)
    assert [1, 1, 1] == found.active("0")
    assert [1, 0, 1] == found.active("1")
    assert [1, 1, 0] == found.active("3")


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_channels_are_the_units_of_pictures(layout: torch.memory_format, logdir: Path) -> None:
    """Channel by channel, however the picture lies in memory."""
    model = nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).to(memory_format=layout)
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([1.0, -1.0, 0.5, -2.0, 3.0]))

    def steps(monitor: nd.Monitor) -> None:
        model(torch.randn(2, 1, 6, 6).to(memory_format=layout)).sum().backward()
        monitor.step()

    found = recorded(logdir, model, None, steps)
    assert [1, 0, 1, 0, 1] == found.active("1")
    assert [1, 0, 1, 0, 1] == found.active("2")
    assert 2 * 5 * 16 == found.samples(Kind.ACTIVATION, "1")[0].count


def test_units_are_joined_over_the_calls_of_a_step(logdir: Path) -> None:
    """A unit that is active in one of several batches of a step was active in it."""
    model = nn.Sequential(nn.Identity(), nn.ReLU())

    def steps(monitor: nd.Monitor) -> None:
        model(torch.tensor([[1.0, -1.0, -1.0]], requires_grad=True))
        model(torch.tensor([[-1.0, -1.0, 2.0]], requires_grad=True))
        monitor.step()

    found = recorded(logdir, model, None, steps)
    assert [1, 0, 1] == found.active("1")
    assert 6 == found.samples(Kind.ACTIVATION, "1")[0].count
