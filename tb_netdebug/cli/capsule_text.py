"""Text for the terminal about a capsule: what it holds, and what replaying its batch showed.

Called by `cli/replaying.py`. A capsule is untrusted: rows, values and strings are capped, and names are
escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from rich.table import Table

from tb_netdebug.cli.dates import date_text
from tb_netdebug.cli.harmless import harmless

MOST_ROWS = 2000
MOST_FACTS = 200
MOST_VALUES = 8
MOST_ARGUMENTS = 32


def contents(path: str, content: dict[str, Any]) -> Table:
    """Return a table of the facts in a capsule, at most MOST_FACTS of them."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    facts = facts_of(path, content)
    for name, told in islice(facts, MOST_FACTS):
        table.add_row(harmless(name), harmless(told))
    if (more := sum(1 for _ in facts)) > 0:
        table.add_row("…", f"and {more} more")
    return table


def facts_of(path: str, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact in a capsule, unescaped."""
    yield "capsule", path
    yield "step", str(content["step"])
    reason = text_of(content.get("reason")) or "not known"
    yield "written", f"{date_text(content.get('time'))}, reason: {reason}"
    versions = content.get("versions")
    if isinstance(versions, dict):
        yield "versions", ", ".join(f"{name} {text_of(each)}" for name, each in some(versions.items()))
    for number, call in enumerate(content["calls"]):
        yield f"call {number}", call_text(call)
    for name, state in content["models"].items():
        yield f"weights {name}".strip(), f"{len(state)} tensors, {size(state)}"
    for optimizer in content["optimizers"]:
        yield "optimizer", f"{text_of(optimizer.get('class'))}, {size(optimizer)}"
    for sentence in content["left_out"]:
        yield "left out", sentence
    first = content.get("first_nonfinite")
    if isinstance(first, dict):
        yield "found", sentence_of(first)
    if isinstance(content.get("error"), str):
        yield "error", content["error"].strip().rpartition("\n")[2]
    findings = content.get("findings")
    for finding in findings if isinstance(findings, list) else ():
        if isinstance(finding, dict):
            yield "finding", f"{text_of(finding.get('rule'))}: {text_of(finding.get('message'))}"


def call_text(call: dict[str, Any]) -> str:
    values = [each if isinstance(each, str) else shown(each) for each in some(call["args"])]
    values += [f"{name}={shown(each)}" for name, each in some(call["kwargs"].items())]
    more = ", …" if len(call["args"]) > MOST_ARGUMENTS or len(call["kwargs"]) > MOST_ARGUMENTS else ""
    return f"{call['model'] or 'the model'}({', '.join(values)}{more})"


def some(values: Any) -> Iterator[Any]:
    return islice(values, MOST_ARGUMENTS)


def text_of(value: Any) -> str:
    """Return a string or float as text, cut to 1000 characters; anything else is abbreviated by `shown`."""
    return str(value)[:1000] if isinstance(value, str | float) else shown(value)


def shown(value: Any) -> str:
    """Return a short text for any value of a capsule: tensors by dtype and shape, containers cut."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    if isinstance(value, list | tuple):
        more = ", …" if len(value) > MOST_VALUES else ""
        return f"[{', '.join(map(shown, value[:MOST_VALUES]))}{more}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(each)}" for key, each in some_items(value)) + "}"
    # Python refuses to print integers of more than 4300 digits, and a capsule may hold any.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return repr(value[:80] if isinstance(value, str) else value)[:80]


def some_items(value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    return islice(value.items(), MOST_VALUES)


def size(value: Any) -> str:
    from tb_netdebug.frameworks.torch.numerics.capsule_file import stored_bytes

    return f"{stored_bytes(value) / 1e6:.3g} MB"


# ---- the replayed batch ----------------------------------------------------------------------------------


def rows_of(done: Any) -> Table:
    """Return a table with one row per output of a replayed batch, the non-finite ones in red."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("module", overflow="fold")
    for name in ("output", "min", "mean", "max", "NaN", "Inf"):
        table.add_column(name, justify="left" if name == "output" else "right")
    for row in done.rows[:MOST_ROWS]:
        summary = row.summary
        numbers = [""] * 5
        style = None
        if summary is not None:
            infinite = summary.pos_inf + summary.neg_inf
            numbers = [""] * 3
            if summary.finite:
                numbers = [f"{each:.4g}" for each in (summary.min, summary.mean, summary.max)]
            numbers += [str(summary.nan or ""), str(infinite or "")]
            style = "red" if summary.nonfinite else None
        named = harmless(f"{row.module}{row.place} ({row.class_name})")
        table.add_row(named, f"{row.dtype}{list(row.shape)}", *numbers, style=style)
    if len(done.rows) > MOST_ROWS:
        table.add_row(f"… and {len(done.rows) - MOST_ROWS} more")
    return table


def verdict(done: Any, content: dict[str, Any]) -> str:
    """Return the sentence below the table: where the first NaN or infinity is, or that all was finite."""
    if not done.is_finite:
        return harmless(sentence_of(done.as_dict()))
    first = content.get("first_nonfinite")
    if not isinstance(first, dict):
        return "Everything was finite."
    kind = first.get("kind") if first.get("kind") in ("NaN", "Inf") else "NaN"
    kind = "an infinity" if kind == "Inf" else "NaN"
    return (
        f"Everything was finite here, but the training saw {kind} in this step. The capsule records: "
        f"{harmless(sentence_of(first))}\n{advice_on(first)}"
    )


def advice_on(first: dict[str, Any]) -> str:
    """Return what to try when the replay did not reproduce the NaN or infinity that was recorded."""
    if first.get("what") in ("loss", "gradient"):
        return (
            "The loss is not in the capsule. Try --backward with --loss MODULE:CALLABLE, which computes "
            "the loss from the model's output."
        )
    return (
        "The cause therefore depends on something other than the weights and the batch: the script's own "
        "random generator, a counter, a cache, another thread, or the device. Try the same run with "
        'check_numerics="ops": it names the operation when it happens.'
    )


def sentence_of(found: dict[str, Any]) -> str:
    """Return the fact `first-nonfinite` as a sentence."""
    kind = text_of(found.get("kind") or "NaN")
    where = f"{text_of(found.get('where') or '')} ({text_of(found.get('class_name') or '')})"
    by = f" by {text_of(found['operation'])}" if found.get("operation") else ""
    line = f", {text_of(found['site'])}" if found.get("site") else ""
    tensor = text_of(found.get("tensor") or "")
    what = found.get("what")
    if what == "input":
        return f"The first {kind} is in the batch itself: {tensor} of {where}."
    if what == "parameter":
        return f"The first {kind} is in the weights: {tensor} of {where}."
    if what == "gradient":
        first = f"The loss is finite; the first {kind} on the way back is in the gradients of {where}"
        return f"{first}{by and f', made{by}'}{line}."
    if what == "loss":
        if tensor == "operand":
            held = text_of(found.get("variable") or "an operand such as the labels")
            return f"The models' outputs are finite, but {held} is not; it was passed to the loss{by}{line}."
        if tensor:
            return f"The models' outputs are finite, but the {tensor} of the loss is not."
        operations = found.get("operations")
        through = " → ".join(map(text_of, some(operations if isinstance(operations, list) else ())))
        told = f" ({through})" if through else ""
        return f"The models' outputs are finite; the loss produces the {kind}{by}{line}{told}."
    if what != "output" or not found.get("where"):
        why_not = text_of(found.get("why_not") or "")
        return f"The origin of the {kind} was not found{f': {why_not}' if why_not else ''}."
    if found.get("repeats") is False:
        return f"The {kind} was first seen in {where}{by}{line}; the same batch run again gave finite values."
    given = "finite inputs" if found.get("inputs_finite") else "inputs that were not all finite"
    if tensor == "operand":
        given = "a tensor given to an operation there, which was not all finite"
    if found.get("masked_inputs"):
        given = "scores that a mask sets to −inf throughout"
    return f"The first {kind} is produced in {where}{by}{line}, from {given}."
