"""The callables that `netdebug replay` gets by name (--model and --loss), and the errors they can cause.

The functions call `use` with what they got and return its exit status, instead of returning the callable:
code that does not end when it is stopped is left running while `use` runs.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.core.user_code import is_foreign_file
from tb_netdebug.experiments.rehearsal.definitions import Definition, Definitions, NamedDefinition, ending_of
from tb_netdebug.experiments.rehearsal.stop import Stopped, library_folders, stop_before_step

IMPOSSIBLE = 2
Loss = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class GivenOption:
    """An option and its value, as typed."""

    option: str
    text: str
    named: NamedDefinition

    @classmethod
    def of(cls, option: str, text: str) -> GivenOption:
        module, _, attribute = text.rpartition(":")
        if not module or not attribute:
            raise UserMistake(f"{option} {text}: expected MODULE:CALLABLE, such as net.py:make_model")
        return cls(option, text, NamedDefinition(module, attribute))

    def __str__(self) -> str:
        return f"{self.option} {self.text}"


def with_model(place: GivenOption, definitions: Definitions, use: Callable[[Any], int]) -> int:
    """Call `use` with what the callable returns: a module, or several by name.

    The callable is stopped before its first optimizer step, as a script is.
    """

    def build(definition: Definition) -> int:
        building = Building(callable_of(place, definition))
        return stop_before_step(
            place.text,
            partial(ending_of, building.begin),
            partial(refusing, lambda stopped: use(building.model(place, stopped))),
        )

    return definitions.take(place.named, partial(refusing, build))


def with_loss(place: GivenOption | None, definitions: Definitions, use: Callable[[Loss | None], int]) -> int:
    """Call `use` with the callable of --loss, or with None if there is none."""
    if place is None:
        return use(None)
    named = place

    def wrap(definition: Definition) -> int:
        return use(NamedLoss(named, callable_of(named, definition)))

    return definitions.take(named.named, partial(refusing, wrap))


def refusing(use: Callable[[Any], int], found: Any) -> int:
    """Call `use`, and report mistakes here instead of raising.

    Code that does not end is left running beside `use`, and an exception would be lost.
    """
    from tb_netdebug.frameworks.torch.numerics.capsule_file import CapsuleError

    try:
        return use(found)
    except (UserMistake, CapsuleError) as mistake:
        return refuse(mistake)


def refuse(mistake: Exception) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"netdebug: {harmless(str(mistake))}\n")
    return IMPOSSIBLE


# ---- the callables ---------------------------------------------------------------------------------------


class Building:
    """One call of the function that builds the model; it may be stopped midway."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._built: list[Any] = []

    def begin(self) -> None:
        self._built.append(self._make())

    def model(self, place: GivenOption, stopped: Stopped) -> Any:
        if self._built:
            return self._built[0]
        if stopped.where:
            raise UserMistake(
                f"{place} trains: it was stopped before its first optimizer step ({stopped.where}), and had "
                "not returned a model by then; name a callable that only builds the model"
            )
        raise UserMistake(f"{place} does not build a model: {told(stopped.error)}")


class NamedLoss:
    """The callable of --loss, called with the output of the model. Its own errors pass unchanged."""

    def __init__(self, place: GivenOption, function: Loss) -> None:
        self._place = place
        self._function = function

    def __call__(self, output: Any) -> Any:
        try:
            value = self._function(output)
        except TypeError as error:
            # A traceback of one frame: the call itself failed, so the arguments do not fit the signature.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise UserMistake(
                f"{self._place} cannot be called with the model's output as its only argument: "
                f"{told(error)}{definition_line(self._function)}"
            ) from error
        if not isinstance(value, importlib.import_module("torch").Tensor):
            raise UserMistake(f"{self._place} returned {type(value).__name__}, not a tensor, as the loss")
        return value


def callable_of(place: GivenOption, definition: Definition) -> Callable[..., Any]:
    """Return the callable that the option names. Raise UserMistake."""
    module, attribute, stopped = place.named.module, place.named.attribute, definition.stopped
    if isinstance(stopped.error, Exception):
        raise UserMistake(f"{place}: {told(stopped.error)}")
    if definition.is_there:
        if not callable(definition.value):
            raise UserMistake(
                f"{place} is not callable: {attribute} is of type {type(definition.value).__name__}"
            )
        found: Callable[..., Any] = definition.value
        return found
    if stopped.where:
        raise UserMistake(
            f"{place}: {module} was stopped before its first optimizer step ({stopped.where}), and had not "
            f"defined {attribute} by then; define it above that line, or in a file that does not train"
        )
    if stopped.error is not None:
        raise UserMistake(f"{place}: {module} ended before it defined {attribute}: {told(stopped.error)}")
    raise UserMistake(f"{place}: {module} has no attribute {attribute!r}")


# ---- text ------------------------------------------------------------------------------------------------


def told(error: BaseException | None) -> str:
    """Return an error in one line, with the line of the user's code that it came from."""
    if error is None:
        return "it returned nothing"
    if isinstance(error, SystemExit):
        return f"exit status {error.code}"
    lines = str(error).splitlines()
    return f"{type(error).__name__}{': ' + lines[0] if lines else ''}{user_place(error)}"


def user_place(error: BaseException) -> str:
    """Return text such as " (net.py:12)" for where an error came from.

    It is the innermost line of the user's code, else that of a library, and empty if there is only our own.
    """
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).is_file()]
    for folders in (library_folders(), ()):
        for each in reversed(frames):
            if not is_foreign_file(each.filename, folders):
                return f" ({Path(each.filename).name}:{each.lineno})"
    return ""


def definition_line(function: Callable[..., Any]) -> str:
    """Return text such as " (net.py:12)" for where a function is defined.

    The text is empty if the function is not written in Python.
    """
    whole = inspect.unwrap(function)
    method = getattr(whole, "__func__", whole)
    code = getattr(method, "__code__", None) or getattr(getattr(whole, "__init__", None), "__code__", None)
    return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
