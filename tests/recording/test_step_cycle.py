"""When a step is over in which several optimizers have a part."""

from __future__ import annotations

from tb_netdebug.recording.step_cycle import MOST_STEPS_OF_ONE, StepCycle


def ends(cycle: StepCycle, members: str) -> str:
    """`|` behind each member whose step ends a step of the training."""
    return "".join(each + ("|" if cycle.stepped(ord(each)) else "") for each in members)


def test_a_step_is_over_when_all_have_stepped() -> None:
    """In whatever order, and however often a critic steps for each step of its generator."""
    assert "a|a|a|" == ends(StepCycle(map(ord, "a")), "aaa")
    assert "ab|ba|" == ends(StepCycle(map(ord, "ab")), "abba")
    assert "aaaaab|aaaaab|" == ends(StepCycle(map(ord, "ab")), "aaaaabaaaaab")


def test_an_optimizer_that_never_steps_is_not_waited_for() -> None:
    """It has another phase; when that comes, the first one is not waited for any more."""
    many = MOST_STEPS_OF_ONE
    cycle = StepCycle(map(ord, "ab"))
    assert "a" * many + "|a|a|" == ends(cycle, "a" * (many + 2))
    assert "b" * many + "|b|b|" == ends(cycle, "b" * (many + 2))


def test_optimizers_of_the_same_parameters_end_a_step_each() -> None:
    """They are phases of one training."""
    cycle = StepCycle(map(ord, "ab"), alone=map(ord, "ab"))
    assert "a|a|b|" == ends(cycle, "aab")
    cycle.join(ord("c"))
    assert "c|b|" == ends(cycle, "cb")


def test_an_optimizer_that_is_gone_is_not_waited_for() -> None:
    """The step ends with the others."""
    cycle = StepCycle(map(ord, "ab"))
    assert "ab|a" == ends(cycle, "aba")
    cycle.leave(ord("b"))
    assert "a|a|" == ends(cycle, "aa")
