"""Chooses the hub, and the training run to debug there."""

from __future__ import annotations

import time

from tb_netdebug.cli.debugging.tensorboards import USUAL_PORT, running
from tb_netdebug.cli.debugging.trainings import named
from tb_netdebug.cli.debugging.words import CommandError
from tb_netdebug.cli.debugging.workspace import LOOK_SECS, Workspace, text_of
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.debugger.client.client import Client, ClientError, ListedTraining
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress

HOW_TO_ARM = "start one with debugger=True in nd.watch, or with netdebug run --debugger"
MOST_LISTED = 10
# An armed run looks for a TensorBoard every three seconds; this gives it two chances.
PATIENCE_SECS = 8.0


def address_of_hub(given: str | None) -> tuple[HubAddress, str]:
    """Return the address of the hub and a sentence on how it was found, empty if the user gave it.

    Raise UserMistake.
    """
    if given is not None:
        try:
            return HubAddress.of(given), ""
        except ValueError as error:
            raise UserMistake(str(error)) from None
    found = running()
    if len(found) > 1:
        # If none of them has training runs, the user has to choose.
        found = [board for board in found if has_trainings(board.url)] or found
    if len(found) > 1:
        listed = ", ".join(f"{board.url} ({harmless(board.logdir)})" for board in found)
        raise UserMistake(f"several TensorBoards are running here; give the address of one: {listed}")
    if found:
        return HubAddress.of(found[0].url), f"The TensorBoard of this machine: {found[0].url}"
    usual = f"http://localhost:{USUAL_PORT}"
    return HubAddress.of(usual), f"Found no running TensorBoard of yours on this machine; trying {usual}"


def has_trainings(url: str) -> bool:
    """Return whether a TensorBoard has training runs to debug; it decides between several that run here."""
    try:
        return bool(HttpClient(HubAddress.of(url), label="", environ={}).sessions())
    except ClientError:
        return False


def choose_training(workspace: Workspace, *, run: str | None, rank: int | None) -> None:
    """Choose a training run for the workspace. Raise UserMistake.

    An interactive user waits for the first training run, and is told if there are others.
    """
    try:
        found = workspace.client.sessions()
        if not found:
            found = (
                first_of(workspace.client, workspace) if workspace.is_interactive else soon(workspace.client)
            )
        if not found:
            raise UserMistake(f"there is no run to debug: {HOW_TO_ARM}")
        workspace.choose(_chosen(found, run, rank, is_interactive=workspace.is_interactive))
    except (ClientError, CommandError) as error:
        raise UserMistake(text_of(error)) from None
    if len(found) > 1 and workspace.is_interactive:
        what = "runs" if len({each.run for each in found}) > 1 else "processes of this run"
        workspace.output.say(
            f"There are {len(found)} {what}: `sessions` lists them, `use` switches to another one."
        )


def first_of(client: Client, workspace: Workspace) -> list[ListedTraining]:
    """Wait without limit for the first training run, with a status line."""
    workspace.output.say(f"There is no run to debug yet: {HOW_TO_ARM}.")
    with workspace.output.status("Waiting for one; press Ctrl-C to quit."):
        while not (found := client.sessions()):
            time.sleep(LOOK_SECS)
    return found


def soon(client: Client) -> list[ListedTraining]:
    """Wait for training runs for at most PATIENCE_SECS.

    Training runs find a TensorBoard only a moment after its debugger was asked for the first time.
    """
    until = time.monotonic() + PATIENCE_SECS
    while not (found := client.sessions()) and time.monotonic() < until:
        time.sleep(LOOK_SECS)
    return found


def _chosen(
    found: list[ListedTraining], run: str | None, rank: int | None, *, is_interactive: bool
) -> ListedTraining:
    """Return the run to debug: a paused one first, since it needs somebody, else the newest."""
    if run is not None:
        return named(found, run=run, rank=rank)
    of_rank = [each for each in found if each.rank == (rank or 0)]
    if len({each.run for each in of_rank}) > 1 and not is_interactive:
        names = ", ".join(harmless(each.run) for each in of_rank[:MOST_LISTED])
        raise UserMistake(f"there are several runs; choose one with --run NAME: {names}")
    if not of_rank:
        raise UserMistake(f"there is no rank {rank or 0} here")
    return next((each for each in of_rank if each.is_paused), of_rank[-1])
