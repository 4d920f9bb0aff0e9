"""What the rules read off the shape of a weight, in the layouts of torch and of Keras."""

from __future__ import annotations

import pytest

from tb_netdebug.checks.evidence.parameters import fans_of, is_matrix_of


@pytest.mark.parametrize(
    ("name", "size", "fans"),
    [
        ("0.weight", (10, 64), (64.0, 10.0)),
        ("0.kernel", (64, 10), (64.0, 10.0)),
        ("0.weight", (16, 8, 3, 3), (72.0, 144.0)),
        ("0.kernel", (3, 3, 8, 16), (72.0, 144.0)),
        ("0.recurrent_kernel", (32, 128), (32.0, 128.0)),
    ],
)
def test_how_many_values_flow_into_a_unit(
    name: str, size: tuple[int, ...], fans: tuple[float, float]
) -> None:
    """And out of one: the same layer has the same in both layouts."""
    assert fans == fans_of(name, None, size)


@pytest.mark.parametrize(
    ("name", "size", "is_matrix"),
    [
        ("0.weight", (64, 32, 1, 1), True),
        ("0.kernel", (1, 1, 32, 64), True),
        ("0.weight", (1, 64), False),
        ("0.kernel", (64, 1), False),
        ("0.bias", (64,), False),
        ("0.kernel", (), False),
    ],
)
def test_matrices(name: str, size: tuple[int, ...], is_matrix: bool) -> None:
    """A convolution of one pixel is one; the single unit at the end of a network is none."""
    assert is_matrix == is_matrix_of(name, size)
