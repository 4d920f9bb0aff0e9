"""Chooses which of a script's models a capsule belongs to. `netdebug replay` uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from tb_netdebug.frameworks.torch.numerics.capsule_weights import misfit
from tb_netdebug.frameworks.torch.numerics.search import inner


def choose(content: dict[str, Any], given: Sequence[Mapping[str, Any]]) -> dict[str, nn.Module]:
    """Return models by their names in the capsule, moved to the CPU like the batch; empty if there are none.

    Models of the right names come first, then models that the capsule's weights fit.
    """
    names = list(content["models"]) or sorted({call["model"] for call in content["calls"]}) or [""]
    sets = [modules for models in given if (modules := modules_in(models))]
    for models in sets:
        if set(names) <= models.keys() and fits(content, models, names):
            return on_cpu({name: models[name] for name in names})
    found = by_weights(content, names, sets)
    if found:
        return on_cpu(found)
    # Nothing fits. Take the models by name, or the only one, so that the error says what does not fit.
    named = [models for models in sets if set(names) <= models.keys()]
    return on_cpu({name: named[0][name] for name in names}) if named else on_cpu(only(names, sets))


def modules_in(models: Mapping[str, Any]) -> dict[str, nn.Module]:
    return {name: inner(each) for name, each in models.items() if isinstance(each, nn.Module)}


def fits(content: dict[str, Any], models: Mapping[str, nn.Module], names: Iterable[str]) -> bool:
    states = content["models"]
    return all(not misfit(states[name], models[name]) for name in names if name in states)


def by_weights(
    content: dict[str, Any], names: Sequence[str], sets: Sequence[Mapping[str, nn.Module]]
) -> dict[str, nn.Module]:
    """Return for each name the first model that fits and is not yet taken; all names, or nothing."""
    states = content["models"]
    candidates = {id(each): each for models in sets for each in models.values()}
    found: dict[str, nn.Module] = {}
    for name in names if states else ():
        fitting = [each for each in candidates.values() if not misfit(states.get(name, {}), each)]
        if not fitting:
            return {}
        found[name] = fitting[0]
        del candidates[id(fitting[0])]
    return found


def only(names: Sequence[str], sets: Sequence[Mapping[str, nn.Module]]) -> dict[str, nn.Module]:
    """Return the first model under the first name: the mismatch is then reported about these two."""
    models = [each for models in sets for each in models.values()]
    return {names[0]: models[0]} if models else {}


def on_cpu(models: dict[str, nn.Module]) -> dict[str, nn.Module]:
    for each in models.values():
        if any(tensor.device.type not in ("cpu", "meta") for tensor in each.parameters()):
            each.cpu()
    return models
