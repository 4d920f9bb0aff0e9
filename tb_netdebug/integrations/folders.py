"""Chooses the folder in which a trainer's callback records: one per training run, resumed ones included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tb_netdebug.core.eventlog.writer.spool import local_folder
from tb_netdebug.integrations.recording import CallbackRecording
from tb_netdebug.recording.remote import say
from tb_netdebug.recording.run_folder import rank, run_folder, told_of_suffix
from tb_netdebug.recording.run_sessions import RunPlace

NAME = "netdebug"


def folder_for(
    recording: CallbackRecording,
    first_step: int,
    *,
    beside: str | Path | None,
    otherwise: str | Path,
    environment: Mapping[str, str],
) -> Path:
    """Return the folder for a training run that begins at `first_step`.

    A run that continues where this recording ended keeps its folder; another one gets its own. Without a
    `logdir` it is `netdebug` inside `beside`, what the trainer itself writes for this run alone; if
    there is no such folder, it is one with the time in its name below `otherwise`.
    """
    before = recording.run_dir
    if before is not None and first_step and first_step == recording.next_step:
        return before
    logdir, run = recording.settings.folder, recording.settings.run
    if logdir is None and beside is not None:
        logdir, run = beside, run or NAME
    if first_step and run is not None:  # a resumed run keeps its folder
        return local_folder(otherwise if logdir is None else logdir) / run
    folder = run_folder(otherwise if logdir is None else logdir, run, environment)
    told = told_of_suffix(RunPlace(folder), recording.settings.run, "Resuming the training")
    if told and rank(environment) == 0:
        say(told)
    return folder
