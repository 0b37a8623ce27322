"""The names of the package `agent_fields` (aft): its notebooks run here after their import is changed.

    import ethogram.agent_fields as aft
    from ethogram.agent_fields import FieldMetrics, visualisations as viz

Fields and metrics are those of Ethogram, with what a notebook of that package relies on: numbers where we say
None, empty horizons, plain dicts of Vega-Lite. Everything else that a field can do here is there too, such as
`FieldMetrics.estimate("drift")`, `FieldMetrics.report()` and `Field.regime(pattern)`.
"""

from ethogram.measures.dimension import Dimension

from . import visualisations
from .fields import CountedAsZero, Field, FieldMetrics

__all__ = ["CountedAsZero", "Dimension", "Field", "FieldMetrics", "visualisations"]
