"""All tensors within reach, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.optim import Optimizer

from tb_netdebug.debugger.workbench import KINDS, Readable, TensorEntry, WorkbenchError
from tb_netdebug.frameworks.torch.stepping.kept import KeptTensors
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayers
from tb_netdebug.frameworks.torch.stepping.previous import PreviousValues
from tb_netdebug.frameworks.torch.stepping.readable import DifferenceReadable, TensorReadable, entry_of
from tb_netdebug.frameworks.torch.values import tensors_in

# Kinds in the order in which a batch makes them. Kinds of one line come in the order in which they were seen.
STAGES = (
    ("batch",),
    ("input", "output"),
    ("label",),
    ("loss",),
    ("output_gradient",),
    ("gradient",),
    ("weight",),
    ("update",),
    ("state",),
    ("user",),
)


@dataclass(frozen=True, slots=True)
class ReachableTensor:
    """A tensor that can be read now; `of` is the name of its layer, parameter or argument."""

    kind: str
    of: str
    tensor: Tensor
    module: str | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.of}"

    def entry(self) -> TensorEntry:
        return entry_of(self.kind, self.of, self.tensor, module=self.module)


class ReachableTensors:
    """Finds tensors by name: parameters by their own names, inputs and outputs by their layer's."""

    def __init__(
        self,
        layers: SteppedLayers,
        kept: KeptTensors,
        previous: PreviousValues,
        optimizers: Callable[[], Sequence[Optimizer]],
    ) -> None:
        self._layers = layers
        self._kept = kept
        self._previous = previous
        self._optimizers = optimizers

    def all(self, kind: str | None = None) -> Iterator[ReachableTensor]:
        self._layers.look()
        for stage in STAGES:
            wanted = stage if kind is None else (kind,) if kind in stage else ()
            if wanted:
                yield from self._of_kinds(wanted)

    def find(self, name: str) -> ReachableTensor:
        """Return the tensor of this name. Raises WorkbenchError with what to do instead."""
        kind, _, of = name.partition(":")
        if kind in ("weight", "gradient", "update"):
            return self._of_weight(kind, of)
        if kind == "state":
            return self._state(of)
        if kind not in KINDS:
            raise WorkbenchError(
                f"{name!r} is not the name of a tensor: names begin with one of {', '.join(KINDS)}"
            )
        return self._of_batch(name)

    def readable(self, name: str) -> Readable:
        """Return the tensor of this name for reading. Raises WorkbenchError."""
        found = self.find(name)
        entry = found.entry()
        now = TensorReadable(entry, found.tensor, before=lambda: self._before(entry))
        if found.kind != "update":
            return now
        then = self._previous.get(f"weight:{found.of}")
        # An update is the difference to the copy of the weight from the previous batch.
        if then is None or then.shape != found.tensor.shape:
            raise WorkbenchError(
                f"{name} is available from the next batch on: now that it was requested, the weights before "
                "each step are kept, as far as memory allows"
            )
        return DifferenceReadable(entry, now, TensorReadable(entry, then), before=lambda: self._before(entry))

    def _before(self, entry: TensorEntry) -> Readable | None:
        values = self._previous.get(entry.name)
        return None if values is None else TensorReadable(entry, values)

    # ---- parameters --------------------------------------------------------------------------------------

    def _of_kinds(self, kinds: tuple[str, ...]) -> Iterator[ReachableTensor]:
        kind = kinds[0]
        if kind == "weight":
            yield from self._weights(kind)
        elif kind == "gradient":  # backward reaches the last layers first
            yield from reversed(list(self._gradients()))
        elif kind == "update":
            yield from (
                each for each in self._weights(kind) if self._previous.get(f"weight:{each.of}") is not None
            )
        elif kind == "state":
            for of in list(self._layers.weights):
                yield from self._states(of)
        else:
            for _, kept in self._kept:
                tensor = kept.present()
                if kept.kind in kinds and tensor is not None and not kept.is_overwritten():
                    yield ReachableTensor(kept.kind, kept.of, tensor, kept.module)

    def _weights(self, kind: str) -> Iterator[ReachableTensor]:
        for of, weight in self._layers.weights.items():
            yield ReachableTensor(kind, of, weight, self._layers.owner(weight))

    def _gradients(self) -> Iterator[ReachableTensor]:
        for of, weight in self._layers.weights.items():
            if weight.grad is not None:
                yield ReachableTensor("gradient", of, weight.grad, self._layers.owner(weight))

    def _states(self, of: str) -> Iterator[ReachableTensor]:
        weight = self._layers.weights[of]
        for optimizer in self._optimizers():
            state = optimizer.state.get(weight)
            for key, value in (state or {}).items():
                for place, tensor in tensors_in(value, str(key)):
                    yield ReachableTensor("state", f"{of}/{place}", tensor, self._layers.owner(weight))

    def _of_weight(self, kind: str, of: str) -> ReachableTensor:
        self._layers.look()
        weight = self._layers.weights.get(of)
        if weight is None:
            raise WorkbenchError(
                f"there is no parameter {of!r}; parameters go by names such as encoder.0.weight"
            )
        tensor = weight.grad if kind == "gradient" else weight
        if tensor is None:
            raise WorkbenchError(
                f"{of} has no gradient now: the backward pass has not reached it yet, or its gradient was "
                "cleared"
            )
        return ReachableTensor(kind, of, tensor, self._layers.owner(weight))

    def _state(self, of: str) -> ReachableTensor:
        self._layers.look()
        weight = of.rpartition("/")[0]
        found = self._states(weight) if weight in self._layers.weights else iter(())
        for each in found:
            if each.of == of:
                return each
        raise WorkbenchError(
            f"no optimizer has state:{of}; optimizers have no state before their first step, and later "
            "names such as state:encoder.0.weight/exp_avg"
        )

    # ---- of this batch -----------------------------------------------------------------------------------

    def _of_batch(self, name: str) -> ReachableTensor:
        kept = self._kept.get(name)
        tensor = None if kept is None else kept.present()
        if kept is None:
            raise WorkbenchError(
                f"{name} was not seen in this batch: it comes later, or nothing was followed when it came. "
                "Step through the batch, or keep its tensors"
            )
        if tensor is None:
            raise WorkbenchError(
                f"{name} is gone: "
                + (
                    "the tensors of this batch exceed the memory for kept tensors"
                    if self._kept.is_full
                    else "it was not kept"
                )
                + "; stop at its layer to see it"
            )
        if kept.is_overwritten():
            raise WorkbenchError(
                f"{name} was changed in place since, as by ReLU(inplace=True); stop at its layer to see it"
            )
        return ReachableTensor(kept.kind, kept.of, tensor, kept.module)
