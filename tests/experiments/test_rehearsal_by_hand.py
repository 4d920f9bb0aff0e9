"""Trainings by hand in every disguise end at their first step, and other gradients are no step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rehearsals import HEAD, Rehearsals


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsals]:
    found = Rehearsals(tmp_path_factory.mktemp("rehearsed"))
    yield found
    found.close()


PLAIN = "w = torch.randn(4, 3, requires_grad=True)\nrounds, last = 0, w.detach().clone()\n"
ENGINE = (
    "torch.autograd.Variable._execution_engine.run_backward("
    "(loss,), (torch.ones(()),), False, False, (), True, accumulate_grad=True)"
)
HIDDEN = {
    "plain tensor": "(x @ w).square().mean().backward()\n    w.data -= w.grad",
    "plain tensor, new data": "(x @ w).square().mean().backward()\n    w.data = w.data - w.grad",
    "plain tensor, autograd.grad": (
        "g, = torch.autograd.grad((x @ w).square().mean(), w)\n    with torch.no_grad(): w.sub_(g)"
    ),
    "plain tensor before a module": (
        "loss = frozen(x @ w).square().mean()\n    loss.backward()\n    w.data -= w.grad"
    ),
    "plain tensor behind a module": (
        "(free(x) @ w).square().mean().backward()\n    w.data -= w.grad"
    ),
    "run_backward": f"loss = net(x).square().mean()\n    {ENGINE}\n    move(net)",
    "run_backward, plain tensor": f"loss = (x @ w).square().mean()\n    {ENGINE}\n    w.data -= w.grad",
    "foreach": (
        "net(x).square().mean().backward()\n    with torch.no_grad():\n"
        "        torch._foreach_add_(list(net.parameters()), [p.grad for p in net.parameters()], alpha=-0.1)"
    ),
    "copy_": (
        "net(x).square().mean().backward()\n    with torch.no_grad():\n"
        "        for p in net.parameters(): p.copy_(p - p.grad)"
    ),
    "numpy": (
        "net(x).square().mean().backward()\n"
        "    for p in net.parameters(): p.detach().numpy()[...] -= p.grad.numpy()"
    ),
    "functional optimizer": (
        "net(x).square().mean().backward()\n    ps = list(net.parameters())\n"
        "    with torch.no_grad(): torch.optim._functional.sgd(ps, [p.grad for p in ps], [None] * len(ps), "
        "weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False, maximize=False)"
    ),
    "new parameters": (
        "net(x).square().mean().backward()\n"
        "    net[0].weight = nn.Parameter((net[0].weight - net[0].weight.grad).detach())"
    ),
    "vector to parameters": (
        "net(x).square().mean().backward()\n    ps = list(net.parameters())\n"
        "    to_vector, of_vector = nn.utils.parameters_to_vector, nn.utils.vector_to_parameters\n"
        "    of_vector((to_vector(ps) - to_vector([p.grad for p in ps])).detach(), ps)"
    ),
}  # fmt: skip
HELPERS = """
frozen = nn.Linear(3, 1).requires_grad_(False)
free = nn.Linear(4, 4)
def move(net):
    for p in net.parameters(): p.data.add_(p.grad, alpha=-0.1)
"""


@pytest.mark.parametrize("kind", HIDDEN)
def test_updates_of_many_kinds_beside_an_optimizer(kind: str, rehearsals: Rehearsals) -> None:
    """The second gradients are not taken, whatever is changed, by whatever way, and whoever asks for them."""
    found = rehearsals.run(
        HEAD + HELPERS + PLAIN + f"for _ in range(3):\n    {HIDDEN[kind]}\n    rounds += 1\n"
    )
    assert (1, None, 0) == (found["main"]["rounds"], found["error"], found["status"])


@pytest.mark.parametrize("hook", ["register_post_accumulate_grad_hook", "register_hook"])
def test_updates_in_hooks(hook: str, rehearsals: Rehearsals) -> None:
    """They have changed something when the first pass has ended; there is no second."""
    text = (
        "def update(p, g): p.data.add_(g, alpha=-0.1)\nrounds = 0\n"
        "for p in net.parameters():\n"
        f"    p.{hook}(lambda g, p=p: update(p, g if g is not p else p.grad))\n"
        "for _ in range(3):\n    net(x).square().mean().backward()\n    rounds += 1\n"
    )
    assert 0 == rehearsals.run(HEAD + text)["main"]["rounds"]


def test_functional_gradients(rehearsals: Rehearsals) -> None:
    """Without an optimizer the first gradients are where it stops, whatever they are of."""
    text = (
        "w, rounds = net[0].weight.detach(), 0\n"
        "for _ in range(3):\n    g = torch.func.grad(lambda w: (x @ w).square().mean())(w)\n"
        "    w = w - 0.1 * g\n    rounds += 1\n"
    )
    found = rehearsals.run(HEAD.replace("opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", "") + text)
    assert (0, 0) == (found["main"]["rounds"], found["status"])


@pytest.mark.parametrize(
    "update",
    [
        "w = (w - torch.func.grad(lambda w: (x @ w).square().mean())(w)).detach()",
        "g, = torch.autograd.grad((x @ w).square().mean(), w); w = (w - g).detach().requires_grad_()",
    ],
)
def test_what_cannot_be_seen_is_bounded(update: str, rehearsals: Rehearsals) -> None:
    """New tensors, beside an optimizer that has nothing to do with them: it is said how far it came."""
    found = rehearsals.run(HEAD + PLAIN + f"while True:\n    {update}\n    rounds += 1\n")
    assert (1000, "1000 backward passes", 0) == (
        found["main"]["rounds"],
        found["without_step"],
        found["status"],
    )
    assert found["where"].startswith("train.py:")


HONEST = {
    "gathering": "for _ in range(40): net(x).square().mean().backward()\n",
    "attack in place": (
        "delta = torch.zeros_like(x, requires_grad=True)\n"
        "for _ in range(7):\n    net(x + delta).square().mean().backward()\n"
        "    delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-1, 1)\n    delta.grad.zero_()\n"
    ),
    "attack, autograd.grad": (
        "a = x.clone().requires_grad_()\nfor _ in range(7):\n"
        "    g, = torch.autograd.grad(net(a).sum(), a)\n    with torch.no_grad(): a += g\n"
    ),
    "hooks that clip": (
        "def clip(p): p.grad.clamp_(-1, 1)\n"
        "for p in net.parameters(): p.register_post_accumulate_grad_hook(clip)\n"
    ),
    "checkpoint": (
        "from torch.utils.checkpoint import checkpoint\n"
        "a = x.clone().requires_grad_()\n"
        "for _ in range(3): checkpoint(net, a, use_reentrant=True).sum().backward()\n"
    ),
    "slow copy": (
        "import copy\nslow = copy.deepcopy(net).requires_grad_(False)\n"
        "for _ in range(3):\n    (net(x) - slow(x)).square().mean().backward()\n"
        "    for p, q in zip(slow.parameters(), net.parameters()): p.data.mul_(0.9).add_(q.data, alpha=0.2)\n"
    ),
    "two optimizers": (
        "D = nn.Linear(1, 1)\nother = torch.optim.SGD(D.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    mixed = net(x).detach().requires_grad_()\n"
        "    g, = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)\n"
        "    (D(mixed).mean() + g.square().sum()).backward()\n"
    ),
    "norm of gradients": (
        "g = torch.autograd.grad(net(x).sum(), list(net.parameters()), create_graph=True)\n"
        "(net(x).sum() + sum(each.square().sum() for each in g)).backward()\n"
    ),
    "func": (
        "def f(v): return torch.func.functional_call(net, dict(net.named_parameters()), v)\n"
        "for _ in range(3): torch.func.jacrev(f)(x)\n"
    ),
    "compiled": (
        "net(x)\ncompiled = torch.compile(net, backend='aot_eager')\n"
        "for _ in range(2): compiled(x).sum().backward()\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_script_gets_to_its_first_step(kind: str, rehearsals: Rehearsals) -> None:
    """Gradients that are taken before it are no step, whatever they are for."""
    found = rehearsals.run(HEAD + HONEST[kind] + "prepared = 1\nstep()\n")
    assert (1, "train.py:17", "") == (found["main"].get("prepared"), found["where"], found["without_step"])
