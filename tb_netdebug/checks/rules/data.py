"""Collects the rules over data: inputs, labels, and how they come."""

from __future__ import annotations

from tb_netdebug.checks.rule import Rule
from tb_netdebug.checks.rules.batches import DataWait, InputRepeatedBatch
from tb_netdebug.checks.rules.inputs import InputConstant, InputScale
from tb_netdebug.checks.rules.labels import LabelsSingleClass
from tb_netdebug.checks.rules.labels_imbalanced import LabelsImbalanced
from tb_netdebug.checks.rules.labels_sorted import LabelsSorted
from tb_netdebug.checks.rules.ranks import DuplicateBatches

RULES: tuple[type[Rule], ...] = (
    InputConstant,
    InputScale,
    InputRepeatedBatch,
    DuplicateBatches,
    LabelsSingleClass,
    LabelsImbalanced,
    LabelsSorted,
    DataWait,
)
