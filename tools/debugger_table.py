"""Writes what the debugger's table of messages (`tb_netdebug/debugger/protocol/`) is the source of.

That is the page's types and parsers, and the tables in `tb_netdebug/debugger/README.md`. `--check` writes
nothing, and fails if a file is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, is_typeddict

from tb_netdebug.debugger.protocol import choices
from tb_netdebug.debugger.protocol import statements as told
from tb_netdebug.debugger.protocol.arguments import NEEDED, Argument
from tb_netdebug.debugger.protocol.statements import FieldSpec, fields_of
from tb_netdebug.debugger.protocol.verbs import VERBS, Verb
from tb_netdebug.debugger.workbench import KINDS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "frontend/src/wire/debugger-table.ts"
README = ROOT / "tb_netdebug/debugger/README.md"
LINE_LETTERS = 120

# The page's names of the types; what a type uses comes before it.
NAMES: Mapping[type, str] = {
    told.PlaceJson: "Place",
    told.ReasonJson: "Reason",
    told.BreakpointJson: "Breakpoint",
    told.WatchpointJson: "Watchpoint",
    told.LearningRateJson: "LearningRate",
    told.StateJson: "DebuggerState",
    told.SessionJson: "DebuggedSession",
    told.PresetJson: "Preset",
    told.HitJson: "Hit",
    told.ModuleJson: "DebuggedModule",
    told.LocalJson: "Local",
    told.FrameJson: "StackFrame",
    told.SourceJson: "SourceText",
    told.TensorJson: "TensorEntry",
    told.BatchTensorJson: "BatchEntry",
}
# The types that have a table in README.md, by its head; the table of verbs names the fields of the rest.
TABLES: Mapping[str, type] = {
    "session": told.SessionJson,
    "state": told.StateJson,
    "place": told.PlaceJson,
    "reason": told.ReasonJson,
    "breakpoint": told.BreakpointJson,
    "watchpoint": told.WatchpointJson,
    "learning_rate": told.LearningRateJson,
}
WORDS = {shape: word for word, shape in TABLES.items()}

# ---- the page


def page() -> str:
    """Return the module of the page with the types, and a parser for each."""
    parts = [HEAD, constants(), *(interface(each) + "\n" + parser(each) for each in NAMES)]
    return "\n".join(parts)


HEAD = """\
/** What a training says. Made by `make table` of tb_netdebug/debugger/protocol/: change that, not this. */

import { number, text } from "./json";
import { count, list, maybe, maybeNumber, maybeText, object, oneOf } from "./fields";
import { numbers, texts, textsByName } from "./fields";
"""


def constants() -> str:
    """Return the words that can be chosen from."""
    return "".join(
        (
            constant("STEPS", choices.STEPS),
            "export type StepBy = (typeof STEPS)[number];\n",
            constant("PHASES", choices.PHASES),
            constant("TENSOR_KINDS", KINDS),
            constant("WATCHED_KINDS", choices.WATCHED),
            constant("WATCHED_STATISTICS", choices.STATISTICS),
            constant("COMPARISONS", choices.COMPARISONS),
        )
    )


def constant(name: str, words: Sequence[str]) -> str:
    quoted = [json.dumps(each) for each in words]
    line = f"export const {name} = [{', '.join(quoted)}] as const;\n"
    if len(line) <= LINE_LETTERS + 1:
        return line
    return f"export const {name} = [\n" + "".join(f"  {each},\n" for each in quoted) + "] as const;\n"


def interface(shape: type) -> str:
    lines = [f"export interface {NAMES[shape]} {{"]
    for each in fields_of(shape):
        lines += [f"  /** {sentence(each.told)} */", f"  readonly {each.name}: {page_type(each)};"]
    return "\n".join([*lines, "}", ""])


def sentence(words: str) -> str:
    """Return a field's documentation as a comment."""
    return f"{words[:1].upper()}{words[1:]}."


def page_type(field: FieldSpec) -> str:
    return f"{type_of(field.hint)} | null" if field.is_nullable else type_of(field.hint)


def type_of(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(json.dumps(each) for each in get_args(hint))
    if get_origin(hint) is list:
        return f"readonly {type_of(get_args(hint)[0])}[]"
    if get_origin(hint) is dict:
        return "Readonly<Record<string, string>>"
    return NAMES.get(hint) or {int: "number", float: "number", str: "string", bool: "boolean"}[hint]


def parser(shape: type) -> str:
    name = NAMES[shape]
    lines = [f"export function parse{name}(value: unknown): {name} {{", "  const json = object(value);"]
    lines += [
        "  return {",
        *(f"    {each.name}: {parsed(each)}," for each in fields_of(shape)),
        "  };",
        "}",
        "",
    ]
    return "\n".join(lines)


def parsed(field: FieldSpec) -> str:
    """Return the expression for a field. A training says it, so what is missing or odd does no harm."""
    hint, value = field.hint, f'json["{field.name}"]'
    if is_typeddict(hint):
        return f"maybe({value}, parse{NAMES[hint]})"
    if get_origin(hint) is Literal:
        return f"oneOf([{', '.join(map(json.dumps, get_args(hint)))}], {value})"
    if get_origin(hint) is list:
        return parsed_list(get_args(hint)[0], value)
    if get_origin(hint) is dict:
        return f"textsByName({value})"
    if hint is bool:
        return f"{value} !== false" if field.default else f"{value} === true"
    if hint is str:
        return f"maybeText({value})" if field.is_nullable else f"text({value})"
    if field.is_nullable:
        return f"maybeNumber({value})"
    if field.default is None:
        return f"number({value})"
    return f"count({value}) || {field.default}" if field.default else f"count({value})"


def parsed_list(item: Any, value: str) -> str:
    if is_typeddict(item):
        return f"list({value}, parse{NAMES[item]})"
    return f"texts({value})" if item is str else f"numbers({value})"


# ---- README.md


def readme(now: str) -> str:
    """Return the text of README.md with its tables as they have to be."""
    for word, shape in TABLES.items():
        now = replaced(
            now, [f"| `{word}` | type | |", "| --- | --- | --- |", *map(field_row, fields_of(shape))]
        )
    head = ["| verb | arguments | value |", "| --- | --- | --- |"]
    return replaced(now, [*head, *(verb_row(name, verb) for name, verb in VERBS.items())])


def replaced(text: str, table: Sequence[str]) -> str:
    """Return the text with this table in the place of the one with the same head."""
    found = re.search(rf"^{re.escape(table[0])}\n(\|.*\n)*", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{README} has no table that begins with {table[0]}")
    return text[: found.start()] + "\n".join(table) + "\n" + text[found.end() :]


def field_row(field: FieldSpec) -> str:
    words = words_of(field.hint, field.choices) + (" or null" if field.is_nullable else "")
    return f"| `{field.name}` | {words} | {field.told} |"


def words_of(hint: Any, allowed: Sequence[str] = ()) -> str:
    """Return a type in words."""
    allowed = get_args(hint) if get_origin(hint) is Literal else allowed
    if get_origin(hint) is list:
        return f"list of {words_of(get_args(hint)[0], allowed)}"
    if allowed:
        return ", ".join(f'"{each}"' for each in allowed)
    if get_origin(hint) is dict:
        return "texts by name"
    words = {int: "N", float: "number", str: "text", bool: "true or false"}
    return f"`{WORDS[hint]}`" if hint in WORDS else words[hint]


def verb_row(name: str, verb: Verb) -> str:
    arguments = "; ".join(argument_words(key, each) for key, each in verb.arguments.items())
    return f"| `{name}` | {arguments + ' ' if arguments else ''}| {answer_words(verb)} |"


def argument_words(name: str, argument: Argument) -> str:
    is_optional = argument.default is not NEEDED and argument.default is not None
    default = f"={json.dumps(argument.default)}" if is_optional else ""
    return f"`{name}`{default}" + (f": {argument.told}" if argument.told else "")


def answer_words(verb: Verb) -> str:
    answer = verb.answer
    if answer == dict[str, Any]:
        return verb.told
    shown = WORDS[answer] if answer in WORDS else f"`{outline(answer)}`" if answer is not None else "null"
    return f"{shown}; {verb.told}" if verb.told else shown


def outline(shape: Any) -> str:
    """Return the fields of a type, as README.md writes an object."""
    if get_origin(shape) is list:
        return f"[{outline(get_args(shape)[0])}]"
    return "{" + ", ".join(map(field_outline, fields_of(shape))) + "}"


def field_outline(field: FieldSpec) -> str:
    is_list_of_objects = get_origin(field.hint) is list and is_typeddict(get_args(field.hint)[0])
    return f'"{field.name}"' + (f": {outline(field.hint)}" if is_list_of_objects else "")


def main(arguments: Sequence[str]) -> int:
    wanted = {PAGE: page(), README: readme(README.read_text(encoding="utf-8"))}
    stale = [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is out of date: run `make table`")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
