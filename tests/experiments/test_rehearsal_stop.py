"""A script is stopped before a step of its optimizer, whatever it catches, and what it had is given back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.rehearsals import HEAD, Rehearsals


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsals]:
    found = Rehearsals(tmp_path_factory.mktemp("rehearsed"))
    yield found
    found.close()


@pytest.mark.parametrize("step", [1, 3])
def test_it_stops_before_the_step_changes_anything(step: int, rehearsals: Rehearsals) -> None:
    """So many steps before, so many backward passes up to there; the arguments are the script's."""
    found = rehearsals.run(HEAD + "steps = 0\nfor _ in range(9):\n    step()\n    steps += 1\n", step=step)
    assert step - 1 == found["main"]["steps"]
    assert step == found["main"]["backwards"]
    assert "train.py:17" == found["where"]
    assert [{"": "Sequential"}] == found["models"]
    assert [["SGD"]] == found["optimizers"]
    assert (0.5, 0, None) == (found["free"], found["status"], found["error"])
    assert step > 1 or found["main"]["now"] == [found["main"]["begun"]]


STUBBORN = {
    "except Exception": "while True:\n    try:\n        step()\n    except Exception:\n        pass\n",
    "bare except": "while True:\n    try:\n        step()\n    except:\n        continue\n",
    "BaseException": "while True:\n    try:\n        step()\n    except BaseException:\n        pass\n",
    "suppress": "while True:\n    with contextlib.suppress(BaseException):\n        step()\n",
    "finally": "while True:\n    try:\n        step()\n    finally:\n        continue\n",
    "backward only": (
        "while True:\n    try:\n        step()\n    except BaseException:\n"
        "        try:\n            net(x).sum().backward(); done = 'twice'\n        except BaseException:\n"
        "            pass\n"
    ),
    "SystemExit": "for _ in range(5000):\n    try:\n        step()\n    except SystemExit:\n        pass\n",
}


@pytest.mark.parametrize("kind", STUBBORN)
def test_a_script_that_catches_everything(kind: str, rehearsals: Rehearsals) -> None:
    """It never gets to a step, nor to a second backward pass; it is left behind after so many tries."""
    found = rehearsals.run(HEAD + STUBBORN[kind])
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert "twice" != found["main"].get("done")
    assert "train.py:17" == found["where"]
    assert (0.5, 0) == (found["free"], found["status"])


def test_a_script_that_swallows_it_and_waits(rehearsals: Rehearsals) -> None:
    """Its thread has ended, and it waits for ever: what was asked for is done beside it."""
    text = "import queue\nthreading.Thread(target=step).start()\nqueue.Queue().get()\n"
    found = rehearsals.run(HEAD + text, patience_secs=0.2)
    assert [{"net": "Sequential"}] == found["models"] or [{"": "Sequential"}] == found["models"]
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert (0.5, 0) == (found["free"], found["status"])


INTERRUPTED = """
import os, signal, time
from tb_netdebug.training.zero_code.script import Script
from tb_netdebug.experiments.rehearsal.stop import run_to_step
def use(_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
    return 0
try:
    run_to_step(Script({script!r}), use, patience_secs=0.1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_beside_a_script(tmp_path: Path, run_python: Callable[..., str]) -> None:
    """What is done beside it ends, too."""
    script = tmp_path / "train.py"
    script.write_text(HEAD + "import queue\nthreading.Thread(target=step).start()\nqueue.Queue().get()\n")
    assert "interrupted" == run_python(INTERRUPTED.format(script=str(script))).strip()


def test_threads_and_forked_children(rehearsals: Rehearsals) -> None:
    """None of them makes a step."""
    text = (
        "threads = [threading.Thread(target=step) for _ in range(3)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "if os.fork() == 0:\n"
        "    try:\n        step()\n        print('STEPPED', flush=True)\n"
        "    except BaseException: print('refused', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    found = rehearsals.run(HEAD + text)
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert ["refused"] == found["printed"]


SPAWNED = {
    "target": "child = context.Process(target=train)\n",
    "run": "child = Child()\n",
    "spawned by a spawned one": "child = context.Process(target=delegate)\n",
}


@pytest.mark.parametrize("kind", SPAWNED)
def test_a_spawned_child(kind: str, rehearsals: Rehearsals) -> None:
    """It starts anew and knows of no stop; it is given one. What it has trained until then it can say."""
    text = (
        "import torch.multiprocessing\ncontext = torch.multiprocessing.get_context('spawn')\n"
        "def train():\n    print('began', flush=True)\n    step()\n    print('STEPPED', flush=True)\n"
        "class Child(context.Process):\n    def run(self): print(sorted(vars(self)) == names); train()\n"
        "def delegate():\n    child = Child()\n    child.start()\n    child.join()\n"
        "names = sorted(vars(context.Process()))\n"
        f"if __name__ == '__main__':\n    {SPAWNED[kind]}"
        "    child.start()\n    child.join()\n    code = child.exitcode\n"
    )
    found = rehearsals.run(HEAD + text)
    printed = [each for each in found["printed"] if each != "True"]
    assert (["began"], 0) == (printed, found["main"]["code"])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_executors(method: str, rehearsals: Rehearsals) -> None:
    """What stops its workers ends the script, and its keeper hears where they were stopped."""
    text = (
        "import multiprocessing, concurrent.futures\n"
        "from tb_netdebug.experiments.rehearsal.channel import open_to_keeper\n"
        "def train(_):\n    step()\n    print('STEPPED', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    reading, writing = os.pipe()\n    open_to_keeper(writing)\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    try:\n"
        "        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:\n"
        "            list(pool.map(train, [1]))\n"
        "    except BaseException as error:\n        raised = type(error).__name__\n"
        "    heard = os.read(reading, 1000).decode()\n"
    )
    found = rehearsals.run(HEAD + text)
    kind, place = json.loads(found["main"]["heard"])
    assert ("StepReached", "child", []) == (found["main"]["raised"], kind, found["printed"])
    assert place.startswith("train.py:")


def test_a_closure(rehearsals: Rehearsals) -> None:
    """LBFGS: the closure is called once, so that there are a loss and gradients; the weights stay."""
    text = (
        "opt = torch.optim.LBFGS(net.parameters())\ncalls = 0\n"
        "def closure():\n    global calls\n    calls += 1\n    opt.zero_grad()\n"
        "    loss = net(x).square().mean()\n    loss.backward()\n    return loss\n"
        "try:\n    opt.step(closure)\nfinally:\n    now[0] = net[0].weight.sum().item()\n"
        "    slope = net[0].weight.grad.abs().sum().item()\n"
    )
    found = rehearsals.run(HEAD + text)
    assert 1 == found["main"]["calls"]
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert found["main"]["slope"] > 0
    assert "LBFGS" in found["optimizers"][0]


@pytest.mark.parametrize(
    "backward", ["loss.backward()\n    grads = [p.grad for p in net.parameters()]",
                 "grads = torch.autograd.grad(loss, list(net.parameters()))"]
)  # fmt: skip
def test_an_update_by_hand(backward: str, rehearsals: Rehearsals) -> None:
    """Without an optimizer the end of the first backward pass is where it stops."""
    text = HEAD.replace("opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", "") + (
        f"for _ in range(3):\n    loss = net(x).square().mean()\n    {backward}\n"
        "    with torch.no_grad():\n        for p, g in zip(net.parameters(), grads): p -= 0.1 * g\n"
        "    now[0] = net[0].weight.sum().item()\n"
    )
    found = rehearsals.run(text)
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert [{"": "Sequential"}] == found["models"]


@pytest.mark.parametrize(
    ("backward", "update"),
    [
        ("loss.backward(); grads = [p.grad for p in net.parameters()]", "with torch.no_grad(): p -= 0.1 * g"),
        ("loss.backward(); grads = [p.grad for p in net.parameters()]", "p.data.add_(g, alpha=-0.1)"),
        ("grads = torch.autograd.grad(loss, list(net.parameters()))", "p.data.add_(g, alpha=-0.1)"),
    ],
    ids=["in place", "data", "data, after autograd.grad"],
)
def test_by_hand_beside_an_optimizer(backward: str, update: str, rehearsals: Rehearsals) -> None:
    """An optimizer that never steps: the second backward pass does not begin."""
    text = (
        "rounds = 0\n"
        f"for _ in range(3):\n    loss = net(x).square().mean()\n    {backward}\n"
        f"    for p, g in zip(net.parameters(), grads):\n        {update}\n"
        "    rounds += 1\n"
    )
    assert 1 == rehearsals.run(HEAD + text)["main"]["rounds"]


def test_a_scaler_that_would_skip(rehearsals: Rehearsals) -> None:
    """A step that is skipped is a step."""
    text = (
        "scaler = torch.amp.GradScaler('cpu', init_scale=2.0**127)\nrounds = 0\n"
        "for _ in range(5):\n    scaler.scale(net(x).square().mean()).backward()\n"
        "    scaler.step(opt)\n    scaler.update()\n    rounds += 1\n"
    )
    assert 0 == rehearsals.run(HEAD + text)["main"]["rounds"]
    assert 2 == rehearsals.run(HEAD + text, step=3)["main"]["rounds"]


def test_a_script_with_nd_watch(rehearsals: Rehearsals, tmp_path: Path) -> None:
    """Its names are those of the models, nothing is recorded, and the monitor takes every call."""
    text = (
        "import tb_netdebug as nd\n"
        f"monitor = nd.watch({{'G': net}}, opt, logdir={str(tmp_path / 'logs')!r})\n"
        "with monitor:\n    monitor.log(a=1)\n    monitor.tensor('x', x)\n"
        "    findings = list(monitor.findings)\n"
        "    for _ in range(3): net(x); monitor.step(); now[0] = 7\n"
    )
    found = rehearsals.run(HEAD + text)
    assert ({"G": "Sequential"}, True) == (found["models"][0], found["watched"][0])
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert not (tmp_path / "logs").exists()


def test_two_networks_have_the_names_of_their_variables(rehearsals: Rehearsals) -> None:
    """As `netdebug run` has them."""
    text = (
        "D, G = nn.Linear(4, 1), nn.Linear(2, 4)\n"
        "od, og = torch.optim.SGD(D.parameters(), lr=1.0), torch.optim.Adam(G.parameters())\n"
        "D(G(torch.randn(3, 2))).mean().backward()\nog.step()\nod.step()\n"
    )
    text = HEAD.replace("opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", "") + text
    assert {"D": "Linear", "G": "Linear"} == rehearsals.run(text)["models"][0]


@pytest.mark.parametrize(
    ("text", "error", "where"),
    [
        ("loss = net(x).sum()\n", None, ""),
        ("net(x)\nraise ValueError('mine')\n", "ValueError", ""),
        ("net(x)\nsys.exit(4)\n", "SystemExit", ""),
        ("net(x)\nsys.exit()\n", None, ""),
    ],
)
def test_a_script_that_ends_before(text: str, error: str | None, where: str, rehearsals: Rehearsals) -> None:
    """It is told how, and what it had by then is there."""
    found = rehearsals.run(HEAD + text)
    assert (error, where) == (found["error"], found["where"])
    assert {"": "Sequential"} in found["models"]


def test_it_cannot_start_itself_again(rehearsals: Rehearsals) -> None:
    """A script that replaces itself by another process would train there."""
    text = "net(x)\nos.execv(sys.executable, [sys.executable, '-c', 'print(\"STEPPED\")'])\n"
    found = rehearsals.run(HEAD + text)
    assert ("OSError", []) == (found["error"], found["printed"])


def test_after_its_use_nothing_trains_either(rehearsals: Rehearsals) -> None:
    """What a thread of the script does while its models are used is refused as before."""
    text = (
        "def again():\n    while True:\n        try:\n            step()\n        except BaseException:\n"
        "            stop.wait(0.001)\n"
        "stop = threading.Event()\nthreading.Thread(target=again, daemon=True).start()\nstep()\n"
    )
    found = rehearsals.run(HEAD + text)
    assert found["main"]["now"] == [found["main"]["begun"]]
    assert (0.5, 0) == (found["free"], found["status"])
