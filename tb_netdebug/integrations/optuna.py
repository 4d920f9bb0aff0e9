"""`nd.OptunaPruning`: ends the trials of a study whose networks are sick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules import ALL
from tb_netdebug.checks.wording.words import paragraph
from tb_netdebug.integrations.requirement import library

optuna = library("optuna", wanted_by="OptunaPruning", extra="optuna")

ATTRIBUTE = "netdebug"


class OptunaPruning:
    """Prunes a trial of Optuna whose network is sick, at the end of the step that shows it:

        monitor = nd.watch(model, optimizer, on_finding=nd.OptunaPruning(trial))

    It goes wherever `on_finding` does, also into `nd.LightningCallback` and `nd.TransformersCallback`. A
    trial is pruned for an error, or for the `rules` that are listed, however severe. The finding is stored in
    `trial.user_attrs["netdebug"]`. Optuna's own pruners work beside it: `trial.report` is left to you.
    """

    def __init__(self, trial: Any, *, rules: Sequence[str] | None = None) -> None:
        known = {rule.slug for rule in ALL}
        unknown = sorted(set(rules or ()) - known)
        if isinstance(rules, str) or unknown:
            given = rules if isinstance(rules, str) else unknown[0]
            raise ValueError(
                f"rules: {given!r} is not a list of checks; the checks are {', '.join(sorted(known))}"
            )
        self._trial = trial
        self._rules = None if rules is None else frozenset(rules)

    def __call__(self, finding: Finding) -> None:
        """Prune the trial if the finding is a reason to. Raise optuna.TrialPruned."""
        if not self._is_reason(finding):
            return
        self._trial.set_user_attr(ATTRIBUTE, finding.as_dict())
        raise optuna.TrialPruned(paragraph(finding))

    def _is_reason(self, finding: Finding) -> bool:
        if self._rules is None:
            return finding.severity is Severity.ERROR
        return finding.rule in self._rules
