"""Untrusted regular expressions, searched in linear time, so that no pattern can hang a program.

Python's own engine backtracks and may take exponential time. Here Python's parser reads the pattern, and its
engine decides about single letters, classes and anchors, so that patterns keep their meaning. All
alternatives are followed at once, letter by letter (Thompson's construction). A pattern that needs more, such
as a reference to a group, is refused.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    from re import _compiler as compiler  # type: ignore[attr-defined]  # private
    from re import _constants as ops  # type: ignore[attr-defined]  # private
    from re import _parser as parser  # type: ignore[attr-defined]  # private
else:
    import sre_compile as compiler
    import sre_constants as ops
    import sre_parse as parser

MOST_LETTERS = 500
# Counted after numbered repetitions such as {3,5} are expanded.
MOST_STATES = 1000
# Entries of each memo table, which is emptied when full: memory must not grow with the text searched.
MOST_REMEMBERED = 4096
CHAR, SPLIT, PLACE, FOUND = range(4)

_REFUSED = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}
# The flags of the whole pattern that may also be set for a part of it, as in (?i:...).
_LOCAL_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII | re.UNICODE

Node = tuple[int, int, int]


class PatternError(ValueError):
    """A pattern that is refused; the message says why."""


class LinearPattern:
    """A compiled pattern that finds what `re.search` would find, in linear time.

    Raises PatternError for an invalid regular expression, and for one that would need more than a fixed
    number of steps for each letter. `steps` counts those taken so far. Not safe for several threads at once.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MOST_LETTERS:
            raise PatternError(
                f"A pattern of {len(text)} characters is too long; the limit is {MOST_LETTERS}."
            )
        machine = _machine_of(text)
        self.states = MOST_STATES - machine.budget[0]
        self._walk = _Walk(machine, is_backwards=False)

    @property
    def steps(self) -> int:
        return self._walk.all_steps

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text."""
        return next(self._walk.found_at(text), None) is not None


class _Walk:
    """The automaton of a pattern: one pass over a text, in all possible states at once.

    The set of states is an integer with one bit for each letter or class of the pattern.
    """

    def __init__(self, machine: _Machine, *, is_backwards: bool) -> None:
        self.steps = 0
        self._is_backwards = is_backwards
        self._nodes = machine.nodes
        self._start = machine.start
        self._places = machine.places
        self._letters = [test.fullmatch for test in machine.letters]
        self._char_at = [at for at, node in enumerate(self._nodes) if node[0] == CHAR]
        self._bit_of = {at: bit for bit, at in enumerate(self._char_at)}
        self._found = 1 << len(self._char_at)
        self._width = len(self._char_at) // 8 + 1
        self._fits: dict[str, int] = {}
        self._parts: dict[tuple[int, int, int], int] = {}

    @property
    def all_steps(self) -> int:
        return self.steps + sum(look.walk.all_steps for look in self._places if isinstance(look, _Look))

    def found_at(self, text: str) -> Iterator[int]:
        """Yield the offsets at which a match ends or, walking backwards, begins."""
        bits = 0  # the letters of the pattern that the last letter of the text matched
        holds = [place.holding(text) for place in self._places]
        places = range(len(text), -1, -1) if self._is_backwards else range(len(text) + 1)
        for at in places:
            truth = sum(hold(at) << number for number, hold in enumerate(holds))
            reached = self._part(truth, -1, 0)
            # Transitions are remembered for eight letters of the pattern at a time.
            for byte, value in enumerate(bits.to_bytes(self._width, "little")) if bits else ():
                if value:
                    reached |= self._part(truth, byte, value)
            self.steps += 1 + bits.bit_count()
            if reached & self._found:
                yield at
            # Walking backwards, the letter to consume at an offset is the one before it.
            if at != places[-1]:
                bits = reached & self._fitting(text[at - self._is_backwards])

    def _fitting(self, letter: str) -> int:
        """Return the letters and classes of the pattern that match a letter, as bits."""
        known = self._fits.get(letter)
        if known is None:
            if len(self._fits) >= MOST_REMEMBERED:
                self._fits.clear()
            known = 0
            fits: dict[int, bool] = {}  # a letter or class may occur many times
            for bit, at in enumerate(self._char_at):
                number = self._nodes[at][1]
                if number not in fits:
                    fits[number] = self._letters[number](letter) is not None
                known |= fits[number] << bit
            self._fits[letter] = known
        return known

    def _part(self, truth: int, byte: int, value: int) -> int:
        """Return the states that follow those in one byte of the state set; byte -1 is the pattern's start.

        `truth` has a bit for each anchor and lookaround that holds here.
        """
        key = truth, byte, value
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= MOST_REMEMBERED:
                self._parts.clear()
            if byte < 0:
                starts = [self._start]
            else:
                chosen = [8 * byte + bit for bit in range(8) if value >> bit & 1]
                starts = [self._nodes[self._char_at[bit]][2] for bit in chosen]
            known = self._parts[key] = self._closure(starts, truth)
        return known

    def _closure(self, starts: Iterable[int], truth: int) -> int:
        """Return all states that are reachable without consuming a letter."""
        waiting, seen, bits = list(starts), set(starts), 0
        while waiting:
            at = waiting.pop()
            self.steps += 1
            kind, one, other = self._nodes[at]
            if kind == CHAR:
                bits |= 1 << self._bit_of[at]
                continue
            if kind == FOUND:
                bits |= self._found
                continue
            ways = (one, other) if kind == SPLIT else (other,) if truth >> one & 1 else ()
            fresh = [way for way in ways if way not in seen]
            waiting += fresh
            seen.update(fresh)
        return bits


class _Machine:
    """A pattern as nodes, built from its end to its beginning, because each node points to the next.

    A node is (CHAR, index of the letter's test, next), (SPLIT, next, next), (PLACE, index of the test, next)
    or FOUND.
    """

    def __init__(self, text: str, budget: list[int], *, is_backwards: bool = False) -> None:
        self.text = text
        self.budget = budget  # states left, in a list because lookarounds share it with their pattern
        self.nodes: list[Node] = [(FOUND, 0, 0)]
        self.start = 0
        self.letters: list[re.Pattern[str]] = []
        self.places: list[_Anchor | _Look] = []
        self._is_backwards = is_backwards
        self._known: dict[tuple[str, str, int], int] = {}

    def node(self, kind: int, one: int, other: int) -> int:
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise PatternError(
                f"The pattern {self.text[:80]!r} is too big: with its repetitions written out, it has more "
                f"than {MOST_STATES} parts."
            )
        self.nodes.append((kind, one, other))
        return len(self.nodes) - 1

    def sequence(self, items: Any, flags: int, after: int) -> int:
        for op, argument in list(items) if self._is_backwards else reversed(list(items)):
            after = self.item(op, argument, flags, after)
        return after

    def item(self, op: Any, argument: Any, flags: int, after: int) -> int:
        name = str(op)
        if name in _REFUSED:
            raise PatternError(
                f"The pattern {self.text[:80]!r} has {_REFUSED[name]}, which may take for ever. Write it in "
                "another way."
            )
        if name == "BRANCH":
            ways = [self.sequence(way, flags, after) for way in argument[1]]
            start = ways.pop()
            while ways:
                start = self.node(SPLIT, ways.pop(), start)
            return start
        if name == "SUBPATTERN":
            _, added, removed, inner = argument
            # ASCII and UNICODE exclude each other, so a new one replaces that of the enclosing group.
            if added & (re.ASCII | re.UNICODE):
                flags &= ~(re.ASCII | re.UNICODE)
            return self.sequence(inner, (flags | added) & ~removed, after)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = argument
            return self.repeated(least, most, inner, flags, after)
        if name == "AT":
            return self.node(PLACE, self.anchor(op, argument, flags), after)
        if name in ("ASSERT", "ASSERT_NOT"):
            direction, inner = argument
            # A lookahead is matched backwards: one pass from the end of the text answers for every offset.
            part = _Machine(self.text, self.budget, is_backwards=direction > 0)
            part.start = part.sequence(inner, flags, 0)
            walk = _Walk(part, is_backwards=direction > 0)
            self.places.append(_Look(walk, name == "ASSERT"))
            return self.node(PLACE, len(self.places) - 1, after)
        return self.node(CHAR, self.letter(op, argument, flags), after)

    def repeated(self, least: int, most: Any, inner: Any, flags: int, after: int) -> int:
        end = after
        if most is ops.MAXREPEAT:
            # The node must exist before its body, which leads back to it; then its targets are filled in.
            end = loop = self.node(SPLIT, after, after)
            self.nodes[loop] = SPLIT, self.sequence(inner, flags, loop), after
        else:
            for _ in range(most - least):
                end = self.node(SPLIT, self.sequence(inner, flags, end), after)
        for _ in range(least):
            before = end
            end = self.sequence(inner, flags, end)
            if end == before:  # an empty pattern adds no node, however often it is repeated
                break
        return end

    def letter(self, op: Any, argument: Any, flags: int) -> int:
        """Return the index of the test of a letter or class; equal ones share a test."""
        key = str(op), repr(argument), flags
        if key not in self._known:
            self.letters.append(_compiled(op, argument, flags))
            self._known[key] = len(self.letters) - 1
        return self._known[key]

    def anchor(self, op: Any, argument: Any, flags: int) -> int:
        key = str(op), repr(argument), flags
        if key not in self._known:
            self.places.append(_Anchor(_compiled(op, argument, flags)))
            self._known[key] = len(self.places) - 1
        return self._known[key]


class _Anchor(NamedTuple):
    """`^`, `$`, `\\b` and the like: Python's own engine decides whether one holds at an offset."""

    test: re.Pattern[str]

    def holding(self, text: str) -> Callable[[int], bool]:
        return lambda at: self.test.match(text, at) is not None


class _Look(NamedTuple):
    """A lookahead or lookbehind; `wanted` is False for a negative one."""

    walk: _Walk
    wanted: bool

    def holding(self, text: str) -> Callable[[int], bool]:
        found = set(self.walk.found_at(text))
        return lambda at: (at in found) is self.wanted


def _compiled(op: Any, argument: Any, flags: int) -> re.Pattern[str]:
    """Compile one letter, class or anchor with Python's own engine."""
    state: Any = parser.State()
    state.flags = flags
    state.str = ""
    pattern: re.Pattern[str] = compiler.compile(parser.SubPattern(state, [(op, argument)]), flags)
    return pattern


def _machine_of(text: str) -> _Machine:
    try:
        # The parser's FutureWarning about patterns such as [[ would point at this module.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(text)
        machine = _Machine(text, [MOST_STATES])
        machine.start = machine.sequence(tree, tree.state.flags & (_LOCAL_FLAGS | re.VERBOSE), 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"{text[:80]!r} is not a regular expression: {error}.") from None
    return machine
