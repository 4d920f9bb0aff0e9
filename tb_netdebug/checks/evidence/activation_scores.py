"""The sign for a rectifier behind class scores: a dead unit there is an answer that is never given."""

from __future__ import annotations

from tb_netdebug.checks.evidence.activation_layers import activation_layers
from tb_netdebug.checks.evidence.loss_looks import CLASS_LOSSES
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import named
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import of_loss


def unheard_classes(history: History, place: int, dead: int, count: int, looks: int) -> Sign | None:
    """Return the sign for dead class scores: hidden units can stand in for each other, scores cannot.

    That the class of a dead score does occur is certain when a batch had more classes than there are units
    left.
    """
    call = _scores_of(history, place, count)
    if call is None or not dead:
        return None
    classes = history.curve(of_loss(call.id, "classes"))
    if classes is None or classes.highest <= count - dead:
        return None
    name = history.activations.names[place]
    return Sign(
        Severity.WARNING,
        f"{dead} of {count} scores, the outputs of {named(name)}, were 0 for every input of the last "
        f"{looks} sampled steps, and there were batches with {int(classes.highest)} classes (more than the "
        f"{count - dead} that are left): no score is below 0, so one that is always 0 can never win, and "
        "it passes no gradient on.",
        f"Remove {named(name)}: the loss expects scores of any size, also below 0. Activations belong "
        "between layers, not after the last one.",
        {
            "dead scores": Evidence(float(dead), float(count - classes.highest)),
            "classes in one batch": Evidence(classes.highest, float(count - dead)),
            "sampled steps": Evidence(float(looks)),
        },
        where=(name,),
        since=history.activations.steps[-looks],
        sureness=0.9,
    )


def _scores_of(history: History, place: int, count: int) -> LossCallFact | None:
    """Return the call of a class loss that is given this layer's output unchanged, or None."""
    layers = activation_layers(history)
    if not (layers.is_output[place] and layers.rectifies[place]):
        return None
    for call in history.known_facts(LossCallFact).values():
        is_of_classes = call.function in CLASS_LOSSES and call.num_classes == count
        if is_of_classes and call.last_layer == layers.classes[place]:
            return call
    return None
