"""Commands about training runs: list them, choose one, take or release its controls, quit."""

from __future__ import annotations

from argparse import Namespace

from tb_netdebug.cli.debugging.command import Command
from tb_netdebug.cli.debugging.place_text import place_text, tell_state
from tb_netdebug.cli.debugging.words import CommandError, OptionParser
from tb_netdebug.cli.debugging.workspace import Workspace, text_of
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.client.client import ClientError, ListedTraining


def sessions(workspace: Workspace, _: Namespace) -> None:
    """List the training runs that can be debugged here."""
    found = workspace.client.sessions()
    own = workspace.training.key if workspace.has_training else None
    rows = [
        [
            f"{'->' if each.key == own else '  '} {number}",
            each.run,
            each.rank,
            each.state.get("status") if each.is_connected else "not connected",
            each.state.get("step"),
            place_text(each.state.get("place")),
            holder_text(workspace, each),
        ]
        for number, each in enumerate(found)
    ]
    workspace.output.rows(
        ["   no.", "run", "rank", "status", "step", "place", "controls"], rows, right=["rank", "step"]
    )
    if not found:
        workspace.output.say(
            "There is no run to debug: start one with debugger= in nd.watch, or with netdebug run --debugger."
        )


def holder_text(workspace: Workspace, training: ListedTraining) -> str:
    if training.holder is None:
        return "free"
    return (
        "you" if training.holder.get("client") == workspace.client.id else str(training.holder.get("label"))
    )


def use(workspace: Workspace, arguments: Namespace) -> None:
    """Switch to another run: by its number in `sessions`, or by its name and rank."""
    found = workspace.client.sessions()
    word = arguments.which
    if word.isdecimal() and int(word) < len(found):
        chosen = found[int(word)]
    else:
        chosen = named(found, run=word, rank=arguments.rank)
    workspace.choose(chosen)
    tell_choice(workspace)


def named(trainings: list[ListedTraining], *, run: str, rank: int | None) -> ListedTraining:
    """Return the training run of that name. Raise CommandError if none or several match."""
    exact = [each for each in trainings if each.run == run] or [each for each in trainings if run in each.run]
    found = [each for each in exact if each.rank == (rank or 0)]
    runs = sorted({harmless(each.run) for each in found or trainings})
    if not found:
        which = f"rank {rank} of a run {harmless(run)!r}" if rank else f"run {harmless(run)!r}"
        raise CommandError(f"There is no {which} here. There are: {', '.join(runs) or 'none'}")
    if len(found) > 1:
        raise CommandError(f"Which one: {', '.join(runs)}?")
    return found[0]


def tell_choice(workspace: Workspace) -> None:
    """Print which run was chosen, and its state."""
    session, training = workspace.training.session, workspace.training
    ranks = int(session.get("world_size") or 1)
    rank = f", rank {training.rank} of {ranks}" if ranks > 1 else ""
    where = f"{session.get('program')}, process {session.get('pid')} on {session.get('host')}"
    workspace.output.line((harmless(training.run), "bold"), harmless(f"{rank}: {where}"))
    for sentence in session.get("cannot") or ():
        workspace.output.say(f"Note: {harmless(str(sentence))}")
    tell_state(workspace)


def take(workspace: Workspace, _: Namespace) -> None:
    """Take the controls, also from another page or terminal, which will see that."""
    workspace.take()
    workspace.output.say("You control this run.")


def release(workspace: Workspace, _: Namespace) -> None:
    """Let go of the controls, for another page or terminal; looking is still possible."""
    workspace.take(release=True)
    workspace.output.say("Nobody controls this run.")


def leave(workspace: Workspace, _: Namespace) -> None:
    """Leave the debugger. A paused run continues, unless somebody else is attached to it.

    Breakpoints and watchpoints of a run that nobody is attached to are off.
    """
    workspace.is_done = True
    # A replayed step (desk.restart) ends with this process: there is nothing to let run on.
    if not workspace.is_interactive or not workspace.has_training or workspace.restart is not None:
        return
    try:
        workspace.refresh()
        if workspace.training.is_paused:
            _part(workspace)
    except ClientError as error:  # an error must not keep the user here
        workspace.output.say(text_of(error))


def _part(workspace: Workspace) -> None:
    answer = ask("The run is paused. Let it continue? [Y/n, or c to stay here] ")
    if answer.startswith("c"):
        workspace.is_done = False
    elif not answer.startswith("n"):
        workspace.call("continue")
    elif workspace.training.clients < 2:
        workspace.output.say("It continues by itself in a moment, because nobody else is attached.")


def ask(question: str) -> str:
    """Ask a question and return the answer; end of input counts as yes."""
    try:
        return input(question).strip().lower()
    except EOFError:
        print()
        return "y"


def _which(parser: OptionParser) -> None:
    parser.add_argument("which", metavar="NUMBER|RUN")
    parser.add_argument("rank", nargs="?", type=int, metavar="RANK")


COMMANDS = (
    Command("sessions", sessions),
    Command("use", use, takes=_which, completes=("runs",)),
    Command("take", take),
    Command("release", release),
    Command("quit", leave, short=("q", "exit")),
)
