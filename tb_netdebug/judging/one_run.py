"""Judges one run in a process of its own: `python -m tb_netdebug.judging.one_run FOLDER` prints the report.

The page's server starts it for long runs, which take Python minutes to judge.
"""

from __future__ import annotations

import os
import sys

from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.records.visible import json_text
from tb_netdebug.judging.logdir import report_of

LOWEST_PRIORITY = 19


def main(folder: str) -> int:
    """Print the report on the run in this folder as JSON. Return 1 when there is no run."""
    os.nice(LOWEST_PRIORITY)  # training may be running on the same processors
    places = LogDir([("", folder)])
    places.refresh()
    place = places.runs.get(".")
    if place is None:
        return 1
    sys.stdout.write(json_text(report_of(".", place, places, {}).as_dict()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
