"""`nd.watch`: finds out which framework a model belongs to, and starts the recording."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tb_netdebug.judging.configuration import checks_of
from tb_netdebug.recording.adapter import Adapter, MakeAdapter
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.remote import remote_of, say
from tb_netdebug.recording.run_folder import rank, run_place, told_of_resuming, told_of_suffix
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.monitor import Monitor

# By the backend that Keras runs on.
KERAS_ADAPTERS = {
    "tensorflow": "tb_netdebug.frameworks.keras.adapter",
    "torch": "tb_netdebug.frameworks.keras.backends.on_torch",
    "jax": "tb_netdebug.frameworks.keras.backends.on_jax",
}


def watch(
    model: Any,
    optimizer: Any = None,
    *,
    logdir: str | Path | None = None,
    run: str | None = None,
    resume: bool = False,
    every: int | str = "auto",
    overhead: float = 0.02,
    include: str | None = None,
    exclude: str | None = None,
    weights: bool = True,
    gradients: bool = True,
    updates: bool = True,
    activations: bool = True,
    memory: bool = True,
    batches: bool = True,
    num_classes: int | None = None,
    console: bool = False,
    on_finding: str | Callable[[Any], object] = "print",
    debugger: bool | str | None = None,
    pause_at_start: bool = False,
    remote: str | None = None,
    check_numerics: str = "sampled",
    flight_recorder: int = 64,
    capsules: bool = True,
    strict: bool = False,
    checks: Mapping[str, Any] | None = None,
) -> Monitor:
    """Record the training of a model; call `step` of the returned monitor at the end of each batch.

    `model` is a module, or several by name such as `{"G": generator, "D": discriminator}`. Without
    `optimizer`, the optimizers that move its parameters are found when they step.

    The records go to `logdir/run`, by default `runs/<date-time>`. If a run of that name exists, the new one
    gets a suffix (`-2`); with `resume=True` that run is continued, and steps count on from its last one.

    `every="auto"` takes full statistics as often as `overhead` allows (0.02: 2 % of the step time), `every=n`
    in every n-th step. `include` and `exclude` are regular expressions over names of layers and parameters.
    `console` prints a line per batch.

    `on_finding` says what happens with findings: "print" them, "raise" an error from `step`, "ignore" them,
    or call a callable with each Finding. `checks` switches single checks off (`{"dead-units": False}`) or
    sets their thresholds (`{"dead-units": {"share": 0.8}}`); a `netdebug.toml` in the current folder may set
    what it leaves open.

    At the first loss that is not finite, a copy of the process runs the batch again to name the module and
    the operation that made it, and batch, weights, optimizer and random numbers go into a capsule beside the
    log (`capsules`; at most three, and each stops the run once while it is written).
    `check_numerics="layers"` checks the output of every layer in every step, "ops" that of every operation,
    which more than doubles the time.

    `remote="host:port"` sends the records to a collector while they are written: a TensorBoard with NetDebug,
    or `netdebug collect`. With a `logdir` they stay there, too; without one they wait in a temporary folder
    until the collector has them. The environment variable NETDEBUG_REMOTE does the same for all recordings.

    `debugger=True` lets the TensorBoard of this machine pause and step the run in NetDebug's Debugger tab,
    "host:port" one elsewhere (the address of its collector). `pause_at_start` waits before the first batch
    until a client attends; `on_finding="pause"` pauses when something is found.

    Training never fails or changes because of it: an error in the recording is reported once and counted;
    `strict=True` raises instead.
    """
    settings = Settings(
        logdir=logdir,
        run=run,
        resume=resume,
        every=every,
        overhead=overhead,
        include=include,
        exclude=exclude,
        weights=weights,
        gradients=gradients,
        updates=updates,
        activations=activations,
        memory=memory,
        batches=batches,
        num_classes=num_classes,
        console=console,
        on_finding=on_finding,
        debugger=debugger,
        pause_at_start=pause_at_start,
        remote=remote_of(remote, os.environ),
        check_numerics=check_numerics,
        flight_recorder=flight_recorder,
        capsules=capsules,
        strict=strict,
        checks=checks_of(checks, Path()),
    )
    make_adapter = adapter_for(model, optimizer)
    place = run_place(settings.folder, run, os.environ, resume=resume)
    number = rank(os.environ)
    told = told_of_resuming(place) if resume else told_of_suffix(place, run, "resume=True")
    if told and number == 0:
        say(told)
    make_adapter = beginning_with(place.first_step, make_adapter)
    return Monitor(make_adapter, settings, run_dir=place.folder, rank=number, is_users=True)


def beginning_with(step: int, make_adapter: MakeAdapter) -> MakeAdapter:
    """Return the same factory for a run that already has steps."""

    def make(collector: StepCollector, guard: Guard, settings: Settings) -> Adapter:
        collector.go_to(step)
        return make_adapter(collector, guard, settings)

    return make


def adapter_for(model: Any, optimizer: Any) -> MakeAdapter:
    """Return the factory of the model's adapter; raise TypeError for a model that NetDebug does not know."""
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    keras = sys.modules.get("keras")  # a program that has a Keras model has imported keras
    if keras is not None and models and all(isinstance(each, keras.layers.Layer) for each in models.values()):
        backend = keras.backend.backend()
        if backend not in KERAS_ADAPTERS:
            raise TypeError(
                f"Keras runs on {backend} here, which cannot train; {' or '.join(KERAS_ADAPTERS)} do"
            )
        made: MakeAdapter = import_module(KERAS_ADAPTERS[backend]).adapter_of(models, optimizer)
        return made
    torch = sys.modules.get("torch")
    if torch is not None and models and all(isinstance(each, torch.nn.Module) for each in models.values()):
        from tb_netdebug.frameworks.torch.adapter import adapter_of

        return adapter_of(models, optimizer)
    kinds = ", ".join(sorted({type(each).__name__ for each in models.values()})) or "nothing"
    raise TypeError(
        f"watch() got {kinds}; it takes a torch.nn.Module or a keras.Model, or several by name: "
        "watch({'G': g, 'D': d}, …)"
    )
