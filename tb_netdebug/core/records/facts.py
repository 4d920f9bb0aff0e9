"""The facts of a step block, each stored as JSON with the row it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.errors import DamagedBlock, require
from tb_netdebug.core.records.step import Fact

MOST_FACTS = 4096
# Limit for one fact; its producer shortens what would be longer, such as a thousand parameter names.
MOST_FACT_BYTES = 1 << 18


def put_facts(rows: Iterable[Sequence[Fact]]) -> list[pb.Fact]:
    """Encode the facts of all rows.

    Values that JSON does not know become text; facts beyond the limits of a reader are dropped.
    """
    put: list[pb.Fact] = []
    for row, facts in enumerate(rows):
        for fact in facts:
            data = json.dumps(fact.data, default=str, ensure_ascii=True).encode()
            if len(data) <= MOST_FACT_BYTES and len(put) < MOST_FACTS:
                put.append(pb.Fact(row=row, kind=fact.kind.encode("utf-8", "replace"), data=data))
    return put


def get_facts(stored: Sequence[pb.Fact], *, rows: int) -> list[tuple[int, Fact]]:
    """Return each fact with its row; raise DamagedBlock."""
    require(len(stored) <= MOST_FACTS, f"a block claims {len(stored)} facts")
    return [(_row(each.row, rows), _fact(each)) for each in stored]


def _row(row: int, rows: int) -> int:
    require(row < rows, "a fact belongs to no step of its block")
    return row


def _fact(stored: pb.Fact) -> Fact:
    require(len(stored.data) <= MOST_FACT_BYTES, "a fact is too big")
    try:
        data = json.loads(stored.data)
    except (ValueError, RecursionError):
        raise DamagedBlock("a fact is not readable") from None
    require(isinstance(data, dict), "a fact is not an object")
    return Fact(stored.kind.decode("utf-8", "replace"), data)
