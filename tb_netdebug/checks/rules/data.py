"""Rules over data: inputs, labels, and how they come."""

from __future__ import annotations

from ..rule import Rule
from .batches import DataWait, InputRepeatedBatch
from .inputs import InputConstant, InputScale
from .labels import LabelsSingleClass
from .labels_imbalanced import LabelsImbalanced
from .labels_sorted import LabelsSorted
from .ranks import DuplicateBatches

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
