"""For the tests of the device path: what the twin says of tensors, and a watch over operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from tb_netdebug.core.stats import twin
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries

TORCH_TYPES = {
    DType.FLOAT32: torch.float32,
    DType.FLOAT64: torch.float64,
    DType.FLOAT16: torch.float16,
    DType.BFLOAT16: torch.bfloat16,
    DType.INT8: torch.int8,
    DType.UINT8: torch.uint8,
    DType.INT16: torch.int16,
    DType.INT32: torch.int32,
    DType.INT64: torch.int64,
    DType.BOOL: torch.bool,
    DType.COMPLEX64: torch.complex64,
    DType.COMPLEX128: torch.complex128,
}
CODES = {dtype: code for code, dtype in TORCH_TYPES.items()}
NANS = [*range(0x7F9, 0x800), *range(0xFF9, 0x1000)]
SUM_TOLERANCE = 1e-12

# What waits for the device, or makes a shape of values.
WAITING = {
    *("item", "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "nonzero_static", "argwhere"),
    *("masked_select", "unique", "unique_dim", "unique_consecutive", "_unique", "_unique2", "bincount"),
    *("repeat_interleave", "_coalesce", "coalesce", "to_sparse", "allclose", "is_coalesced_"),
}
VIEWS = {
    *("view", "split_with_sizes", "unbind", "as_strided", "slice", "narrow", "select", "expand", "detach"),
    *(
        "view_as_real",
        "_values",
        "alias",
        "conj",
        "_conj",
        "resolve_neg",
        "resolve_conj",
        "reshape",
        "device",
    ),
    *("_reshape_alias", "unsqueeze", "lift_fresh", "detach_", "empty", "empty_like"),
}


class Audit(TorchDispatchMode):
    """Records each operation, and refuses those that wait."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1]
        self.names.append(name)
        assert name not in WAITING, f"{name} waits for the device"
        if name in ("copy_", "_to_copy", "to"):
            self._check_copy(args, kwargs or {})
        return func(*args, **(kwargs or {}))

    @property
    def launches(self) -> list[str]:
        """The operations that start work on a device."""
        return [name for name in self.names if name not in VIEWS]

    def _check_copy(self, args: Any, kwargs: dict[str, Any]) -> None:
        devices = {arg.device.type for arg in args if isinstance(arg, torch.Tensor)}
        devices |= {torch.device(arg).type for arg in kwargs.values() if isinstance(arg, (torch.device, str))}
        assert len(devices) == 1 or kwargs.get("non_blocking") or any(arg is True for arg in args), (
            "a copy that waits"
        )


def tensor_of(array: NDArray[Any], dtype: DType) -> torch.Tensor:
    """The same bits; NumPy knows bfloat16 as plain 16 bits."""
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if dtype == DType.BFLOAT16 else tensor


def twin_summary(tensor: torch.Tensor) -> Summary:
    dense = tensor.detach().resolve_conj().contiguous()
    return Summary.unpack(twin.summarize([(dense.data_ptr(), dense.numel(), CODES[dense.dtype])], 1)[0])


def twin_update(tensor: torch.Tensor, previous: torch.Tensor) -> Summary:
    """Of the difference; `previous` stays as it is."""
    new, old = tensor.detach().contiguous(), previous.contiguous().clone()
    [(_, update)] = twin.summarize_updates(
        [(new.data_ptr(), old.data_ptr(), new.numel(), CODES[new.dtype])], 1
    )
    return Summary.unpack(update)


def device_summaries(*tensors: torch.Tensor, device: DeviceSummaries | None = None) -> list[Summary]:
    device = device or DeviceSummaries()
    assert [] == device.summarize(tensors, range(len(tensors)))
    device.flush()
    results = [item for collected in device.ready() for item in collected.summaries]
    assert list(range(len(tensors))) == [key for key, _ in results]
    return [Summary.unpack(packed) for _, packed in results]


def assert_same(expected: Summary, actual: Summary, values: torch.Tensor, *, exact: bool = True) -> None:
    """Equal but for the order of summation; not `exact`: the last digit of a complex magnitude may differ."""
    for name in ("count", "nan", "pos_inf", "neg_inf", "zeros"):
        assert getattr(expected, name) == getattr(actual, name), name
    if exact:
        assert (expected.overflow, _bins(expected, values)) == (actual.overflow, _bins(actual, values))
    assert _close(expected.min, actual.min, 0.0 if exact else 1e-15)
    assert _close(expected.max, actual.max, 0.0 if exact else 1e-15)
    sizes = magnitudes(values)
    assert _sums_agree(expected.sum, actual.sum, sizes)
    with np.errstate(all="ignore"):
        assert _sums_agree(expected.sum_squares, actual.sum_squares, sizes * sizes)


def magnitudes(values: torch.Tensor) -> NDArray[np.float64]:
    """How large the finite values are."""
    plain = values.detach().resolve_conj()
    wide = plain.to(torch.complex128) if plain.is_complex() else plain.to(torch.float64)
    sizes = wide.abs().numpy().ravel()
    finite: NDArray[np.float64] = sizes[np.isfinite(sizes)]
    return finite


def _bins(summary: Summary, values: torch.Tensor) -> dict[int, int]:
    """Bin → count. Processors differ in what a signalling NaN of float16 becomes, so there NaN is one."""
    bins = dict(zip(summary.bins.tolist(), summary.counts.tolist(), strict=True))
    if values.dtype == torch.float16:
        bins[NANS[0]] = sum(bins.pop(nan, 0) for nan in NANS)
    return bins


def _close(expected: float, actual: float, tolerance: float) -> bool:
    both_nan = math.isnan(expected) and math.isnan(actual)
    return both_nan or expected == actual or math.isclose(expected, actual, rel_tol=tolerance)


def _sums_agree(expected: float, actual: float, sizes: NDArray[np.float64]) -> bool:
    with np.errstate(all="ignore"):
        size = float(sizes.sum())
    if not math.isfinite(size):  # beyond the doubles the result hangs on the order
        return True
    return abs(expected - actual) <= SUM_TOLERANCE * size
