"""Turn sets of traces into named estimates. Names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_NAMES = {
    "Ablation": "ablation",
    "ablate": "ablation",
    "Chain": "chain",
    "summarise": "chain",
    "Corridor": "corridor",
    "Dimension": "field",
    "Field": "field",
    "FieldComparison": "fieldtests",
    "compare_fields": "fieldtests",
    "FieldMetrics": "metrics",
    "FieldReport": "metrics",
    "Milestones": "milestones",
    "milestones_from": "milestones",
    "HorizonReading": "stages",
    "walk": "stages",
}

__all__ = [
    "Ablation",
    "Chain",
    "Corridor",
    "Dimension",
    "Field",
    "FieldComparison",
    "FieldMetrics",
    "FieldReport",
    "HorizonReading",
    "Milestones",
    "ablate",
    "compare_fields",
    "milestones_from",
    "summarise",
    "walk",
]

if TYPE_CHECKING:
    from .ablation import Ablation, ablate
    from .chain import Chain, summarise
    from .corridor import Corridor
    from .field import Dimension, Field
    from .fieldtests import FieldComparison, compare_fields
    from .metrics import FieldMetrics, FieldReport
    from .milestones import Milestones, milestones_from
    from .stages import HorizonReading, walk


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ethogram.measure' has no attribute {name!r}")
    return getattr(import_module(f".{_NAMES[name]}", __name__), name)
