"""Where a training with torch can be stopped: phases, layers, their gradients and optimizers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.debugger.place import BACKWARD, Place
from tb_netdebug.debugger.workbench import NOTHING, Needs
from tests.support.loops import Recurrent, Transformer, hooks_of, mlp, vectors
from tests.support.stepping import ALL, Script, end_step, sgd, stepped

PHASES = Needs(phases=True)
LAYERS = Needs(layers=True)
BACK = Needs(backward=True)


def calls(*names: str) -> list[str]:
    """Of layers that are called one after the other."""
    return [f"{edge} forward of {name}" for name in names for edge in ("before", "after")]


def around(name: str, *inner: str) -> list[str]:
    return [f"before forward of {name}", *inner, f"after forward of {name}"]


def one_step(model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(*inputs).square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


# ---- phases --------------------------------------------------------------------------------


def test_the_phases_of_a_batch(logdir: Path) -> None:
    """Forward, backward and optimizer, in their order; evaluations do not count."""
    model = mlp()
    optimizer = sgd(model)
    with stepped(logdir, model, optimizer, needs=PHASES) as (script, monitor):
        with torch.no_grad():
            model(torch.ones(2, 6))
        one_step(model, torch.ones(2, 6))
        optimizer.step()
        end_step(script, monitor)
    assert [
        "before forward of Sequential",
        "after forward of Sequential",
        "before backward of all",
        "before optimizer of SGD",
        "after optimizer of SGD",
    ] == script.told


def test_nothing_is_put_on_before_it_is_needed(logdir: Path) -> None:
    """A workbench alone leaves no hook on anything, and takes off all that it has put on."""
    model, backward = mlp(), torch.autograd.backward
    cross_entropy = functional.cross_entropy.__code__
    optimizer = sgd(model)
    with stepped(logdir, model, optimizer) as (script, monitor):
        one_step(model, torch.ones(2, 6))
        end_step(script, monitor)  # the recorder has seen the first call
        before, code = hooks_of(model), backward.__code__
        assert [] == script.told
        for needs in (PHASES, LAYERS, BACK, Needs(keep=True), Needs(ops=True), ALL):
            script.bench.need(needs)
            one_step(model, torch.ones(2, 6))
            script.bench.need(NOTHING)
            assert before == hooks_of(model)
            assert code is backward.__code__
            assert all(not each._post_accumulate_grad_hooks for each in model.parameters())
            assert 0 == torch._C._len_torch_dispatch_stack()
    assert cross_entropy is functional.cross_entropy.__code__


def test_an_optimizer_that_trains_while_it_steps(logdir: Path) -> None:
    """The passes of LBFGS come between the two stops of its step."""
    model = nn.Sequential(nn.Linear(2, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    with stepped(logdir, model, optimizer, needs=PHASES) as (script, monitor):
        optimizer.step(lambda: one_step(model, torch.ones(3, 2)))
        end_step(script, monitor)
    assert [
        "before optimizer of LBFGS",
        "before forward of Sequential",
        "after forward of Sequential",
        "before backward of all",
        "after optimizer of LBFGS",
    ] == script.told


def test_optimizers_of_others_are_passed_over(logdir: Path) -> None:
    """An optimizer that moves nothing of the watched model does not stop it."""
    model, other = mlp(), nn.Linear(6, 3)
    with stepped(logdir, model, needs=PHASES) as (script, _):
        one_step(other, torch.ones(2, 6))
        sgd(other).step()
    assert ["before backward of all"] == script.told


def test_a_session_that_is_not_alert_hears_nothing(logdir: Path) -> None:
    """Hooks look at `is_alert` first."""
    model = mlp()
    with stepped(logdir, model, needs=ALL) as (script, _):
        script.is_alert = False
        one_step(model, torch.ones(2, 6))
        script.is_alert = True
    assert [] == script.told


# ---- layers --------------------------------------------------------------------------------


def test_each_layer_is_stopped_before_and_after(logdir: Path) -> None:
    """By the names of the graph; the model itself is a layer, too."""
    model = mlp()
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(torch.ones(2, 6))
    assert around("Sequential", *calls("0", "1", "2", "3", "4")) == script.told


def test_several_models_have_their_names_before(logdir: Path) -> None:
    """As in records: "G/0"."""
    models = {"G": nn.Sequential(nn.Linear(2, 2)), "D": nn.Linear(2, 1)}
    with stepped(logdir, models, needs=LAYERS) as (script, _):
        models["D"](models["G"](torch.ones(2, 2)))
        names = [each["name"] for each in script.bench.modules()]
    assert [*around("G", *calls("G/0")), *calls("D")] == script.told
    assert ["G", "G/0", "D"] == names


class Blocks(nn.Module):
    """Has lists and dicts of layers, one that is called twice and one that never is."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
        self.by_name = nn.ModuleDict({"act": nn.ReLU()})
        self.spare = nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            inputs = self.by_name["act"](block(inputs))
        return inputs


def test_lists_dicts_shared_and_idle_layers(logdir: Path) -> None:
    """Each call counts, of a shared layer, too; what is not called is not stopped at."""
    model = Blocks()
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(torch.ones(3, 2))
    inner = calls("blocks.0", "by_name.act", "blocks.1", "by_name.act")
    assert around("Blocks", *inner) == script.told


@pytest.mark.parametrize(
    ("make", "inputs", "last"),
    [
        (Recurrent, torch.ones(2, 3, 5), calls("lstm", "head")),
        (Transformer, torch.ones(2, 3, dtype=torch.long), calls("head")),
    ],
)
def test_recurrent_and_attentive_models(
    make: Callable[[], nn.Module], inputs: torch.Tensor, last: list[str], logdir: Path
) -> None:
    """Layers that compute with parts of their own are stopped at as well."""
    model = make()
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(inputs)
    assert last == script.told[:-1][-len(last) :]


class Frozen(nn.Module):
    """Computes its first layer without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            hidden = self.body(inputs)
        scores: torch.Tensor = self.head(hidden)
        return scores


def test_layers_without_gradients_in_a_training_call(logdir: Path) -> None:
    """They are part of it; those of an evaluation are not."""
    model = Frozen()
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(torch.ones(2, 2))
        told = script.take()
        with torch.no_grad():
            model(torch.ones(2, 2))
    assert around("Frozen", *calls("body", "head")) == told
    assert [] == script.told


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_backward_computes_again_is_not_stopped_at_again(use_reentrant: bool, logdir: Path) -> None:
    """Activation checkpointing calls layers in the backward pass once more."""
    body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model = nn.ModuleDict({"body": body, "head": nn.Linear(2, 1)})

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden = checkpoint(self.parts["body"], inputs, use_reentrant=use_reentrant)
            scores: torch.Tensor = self.parts["head"](hidden)
            return scores

    with stepped(logdir, Whole(), needs=LAYERS) as (script, monitor):
        model_called = script.bench._layers.named("Whole")
        assert model_called is not None
        one_step(model_called.module, torch.ones(2, 2, requires_grad=True))
        end_step(script, monitor)
    inner = around("parts.body", *calls("parts.body.0", "parts.body.1"))
    assert around("Whole", *inner, *calls("parts.head")) == script.told


def test_layers_that_come_later(logdir: Path) -> None:
    """A model that has grown is followed from its next call on; what has left it is not."""
    model = nn.Sequential(nn.Linear(2, 2))
    with stepped(logdir, model, needs=LAYERS) as (script, monitor):
        model(torch.ones(1, 2))
        end_step(script, monitor)
        script.take()
        old, model[0] = model[0], nn.Linear(2, 2)
        model.append(nn.Tanh())
        model(torch.ones(1, 2))
        told = script.take()
        old(torch.ones(1, 2))
    assert around("Sequential", *calls("0", "1")) == told
    assert [] == script.told


def test_stepping_from_within_a_layer(logdir: Path) -> None:
    """Asked for at the begin of the model, its first layer is the next stop; asked off, the last one is."""
    model = mlp()

    def follow(script: Script, place: Place) -> None:
        if place.module is None and place.edge == "before":
            script.bench.need(Needs(phases=True, layers=True))
        if place.module == "2" and place.edge == "after":
            script.bench.need(PHASES)

    script = Script(follow)
    with stepped(logdir, model, script=script, needs=PHASES):
        model(torch.ones(2, 6))
    assert [
        "before forward of Sequential",
        *calls("0", "1", "2"),
        "after forward of Sequential",
    ] == script.told


def test_hooks_of_others_stay_in_force_when_ours_change(logdir: Path) -> None:
    """Hooks that come and go while torch goes through those of the same layer disturb none of the user's."""
    model = mlp()
    seen: list[str] = []

    def flip(script: Script, place: Place) -> None:
        script.bench.need(NOTHING if len(script.places) % 2 else ALL)
        script.bench.need(LAYERS if len(script.places) % 3 else Needs(phases=True, layers=True))

    script = Script(flip)
    with stepped(logdir, model, script=script, needs=LAYERS):
        for name, layer in model.named_children():
            layer.register_forward_pre_hook(lambda *_, name=name: seen.append(f"before {name}"))
            layer.register_forward_hook(lambda *_, name=name: seen.append(f"after {name}"))
        model(torch.ones(2, 6))
    assert [f"{edge} {name}" for name in "01234" for edge in ("before", "after")] == seen
    assert "after forward of 4" in script.told


# ---- backward ------------------------------------------------------------------------------


def test_the_backward_pass_layer_by_layer(logdir: Path) -> None:
    """Before a layer the gradient of its output is there, after it those of its parameters."""
    model = mlp()
    found: list[tuple[str | None, bool]] = []

    def look(script: Script, place: Place) -> None:
        if place.phase == BACKWARD and place.module in ("0", "2", "4"):
            layer = model.get_submodule(place.module)
            found.append((f"{place.edge} {place.module}", layer.weight.grad is not None))

    with stepped(logdir, model, script=Script(look), needs=BACK) as (script, monitor):
        one_step(model, torch.ones(2, 6))
        end_step(script, monitor)
    assert [(f"{edge} {name}", edge == "after") for name in "420" for edge in ("before", "after")] == found
    # The model gets its gradient before its last layer does.
    assert ["before backward of Sequential", "before backward of 4"] == script.told[:2]


def test_backward_asked_for_after_the_forward_pass(logdir: Path) -> None:
    """The gradients of parameters are told of all the same."""
    model = mlp()
    with stepped(logdir, model) as (script, _):
        loss = model(torch.ones(2, 6)).sum()
        script.bench.need(BACK)
        loss.backward()
    assert [f"after backward of {name}" for name in "420"] == script.told


def test_a_layer_of_which_a_parameter_has_no_part_in_the_loss(logdir: Path) -> None:
    """It is told of at the end of the pass."""

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs * self.used

    model = nn.Sequential(nn.Linear(2, 2), Half())
    with stepped(logdir, model, needs=BACK) as (script, _):
        one_step(model, torch.ones(2, 2))
    assert ["after backward of 0", "after backward of 1"] == [
        each for each in script.told if each.startswith("after")
    ]


def test_layers_that_are_written_over_in_place(logdir: Path) -> None:
    """A ReLU that works in place gets a gradient of its own, and so does the layer before it."""
    model = nn.Sequential(nn.Conv1d(1, 2, 2), nn.ReLU(inplace=True), nn.Conv1d(2, 1, 2))
    with stepped(logdir, model, needs=BACK) as (script, _):
        one_step(model, torch.randn(2, 1, 5))
    assert [f"before backward of {name}" for name in ("Sequential", "2", "1", "0")] == [
        each for each in script.told if each.startswith("before")
    ]


def test_nothing_is_left_on_tensors(logdir: Path) -> None:
    """What was put on outputs for the backward pass is gone at the end of the batch."""
    model = mlp()
    with stepped(logdir, model, needs=ALL) as (script, monitor):
        output = model(torch.ones(2, 6))
        assert output._backward_hooks
        end_step(script, monitor)
        assert not output._backward_hooks


# ---- threads and exceptions ----------------------------------------------------------------


def test_two_trainings_in_threads(logdir: Path) -> None:
    """Each hears of its own passes alone, though both call the same model."""
    model = mlp()
    scripts = []
    with stepped(logdir, model, needs=Needs(phases=True, layers=True, backward=True)) as (script, _):

        def other() -> None:
            for _ in range(3):
                one_step(model, torch.ones(2, 6))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        scripts.append(script.take())
        one_step(model, torch.ones(2, 6))
    assert [] == scripts[0]
    assert "before forward of 0" in script.told
    assert "after backward of 0" in script.told


class Stopped(BaseException):
    """As KeyboardInterrupt: meant to end the training."""


def finding() -> FindingError:
    return FindingError(Finding("loss-spike", Severity.WARNING, 3, 3, [], "It is 2.", "Mend it.", {}, 0.9))


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt, finding])
@pytest.mark.parametrize(
    "where",
    [
        "before forward of Sequential",
        "after forward of 2",
        "before backward of all",
        "before backward of 2",
        "after backward of 2",
        "before optimizer of SGD",
    ],
)
def test_what_a_session_raises_on_purpose_ends_the_training(
    where: str, error: Callable[[], BaseException], logdir: Path
) -> None:
    """It passes through hooks, autograd and optimizers as it is."""
    raised = error()

    def leave(script: Script, place: Place) -> None:
        if script.told[-1] == where:
            raise raised

    model = mlp()
    optimizer = sgd(model)
    needs = Needs(phases=True, layers=True, backward=True)
    with stepped(logdir, model, optimizer, script=Script(leave), needs=needs):

        def step() -> None:
            one_step(model, torch.ones(2, 6))
            optimizer.step()

        with pytest.raises(type(raised)) as caught:
            step()
        assert raised is caught.value


def test_a_fault_of_the_session_does_not_disturb_the_training(logdir: Path) -> None:
    """It is counted and said like any fault of ours."""
    model = mlp()

    def fail(script: Script, place: Place) -> None:
        raise LookupError("ours")

    with stepped(logdir, model, script=Script(fail), needs=PHASES) as (_, monitor):
        one_step(model, torch.ones(2, 6))
        assert 2 < monitor._guard.faults
        assert "stopping the training" in str(monitor._guard._pending)
        monitor._guard.faults, monitor._guard._pending = 0, None


def test_a_forward_pass_that_fails(logdir: Path) -> None:
    """Its error reaches the user as it is; the next pass is followed as before."""
    model = mlp()
    with stepped(logdir, model, needs=Needs(phases=True, layers=True)) as (script, _):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(2, 5))
        script.take()
        model(*vectors()[:1])
    assert "before forward of Sequential" == script.told[0]
    assert "after forward of Sequential" == script.told[-1]


# ---- what cannot be seen -------------------------------------------------------------------


def test_a_compiled_model(logdir: Path) -> None:
    """It can be stepped by batch and by optimizer, is not compiled again for it, and says why no more."""
    torch._dynamo.reset()  # what other tests compiled of torch's own code counts as a first time here
    model: Any = torch.compile(mlp(), backend="eager")
    optimizer = sgd(model)
    options: dict[str, Any] = {"activations": False, "needs": ALL}
    with stepped(logdir, model, optimizer, **options) as (script, monitor):
        for needs in (ALL, NOTHING, ALL):
            script.bench.need(needs)
            with torch._dynamo.config.patch(error_on_recompile=True):
                one_step(model, torch.ones(2, 6))
            optimizer.step()
            end_step(script, monitor)
        assert ("batch", "optimizer") == script.bench.can
        assert [
            "OptimizedModule: it is compiled by torch.compile, so the run cannot stop within it."
        ] == script.bench.cannot
    assert [
        "before forward of OptimizedModule",
        "after forward of OptimizedModule",
        "before backward of all",
        "before optimizer of SGD",
        "after optimizer of SGD",
    ] == script.told[:5]


def test_a_compiled_part_of_a_model(logdir: Path) -> None:
    """The rest can be stepped by layer."""
    part = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    part.compile(backend="eager")
    model = nn.Sequential(part, nn.Linear(2, 1))
    with stepped(logdir, model, needs=LAYERS, activations=False) as (script, _):
        one_step(model, torch.ones(3, 2))
        assert ("batch", "layer", "backward", "optimizer") == script.bench.can
        assert [
            "0: it is compiled by torch.compile, so the run cannot stop within it."
        ] == script.bench.cannot
    assert around("Sequential", *calls("1")) == script.told


def test_scripted_layers(logdir: Path) -> None:
    """What torch.jit.script has made takes no hooks; the layers around it do."""
    model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)), nn.Linear(2, 1))
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(torch.ones(3, 2))
        assert ["0: it is TorchScript, so the run cannot stop at it."] == script.bench.cannot
    assert around("Sequential", *calls("1")) == script.told


def test_a_model_within_a_compiled_function(logdir: Path) -> None:
    """Its graph has no breaks because of our hooks, and its layers are passed over."""
    model = mlp()

    @torch.compile(backend="eager", fullgraph=True)
    def loss_of(inputs: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(inputs).square().mean()
        return loss

    with stepped(logdir, model, needs=ALL, activations=False) as (script, monitor):
        loss_of(torch.ones(2, 6)).backward()  # type: ignore[no-untyped-call]
        end_step(script, monitor)
    told = [each for each in script.told if "forward of" in each or "backward of all" in each]
    assert ["before backward of all"] == told


def test_a_list_of_models_that_grows(logdir: Path) -> None:
    """Its parts are what is called, and the ones that come later are, too."""
    model = nn.ModuleList([nn.Linear(2, 2)])
    with stepped(logdir, model, needs=PHASES) as (script, monitor):
        model[0](torch.ones(1, 2))
        end_step(script, monitor)
        script.take()
        model.append(nn.Sequential(nn.Linear(2, 2)))
        model[1](model[0](torch.ones(1, 2)))
    assert calls("Linear", "Sequential") == script.told


def test_wrappers_take_nothing_from_names(logdir: Path) -> None:
    """A DataParallel around a model is not a layer of its own."""
    model = nn.DataParallel(mlp())
    with stepped(logdir, model, needs=LAYERS) as (script, _):
        model(torch.ones(2, 6))
    assert around("DataParallel", *calls("0", "1", "2", "3", "4"))[1:-1] == [
        each for each in script.told if each[-1].isdigit()
    ]
    assert 12 == len(script.told)
