"""What of a result is shown and in which order: declared by its class, else found from its fields."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Protocol


class Drawing(NamedTuple):
    """What `plot()` draws of the rows of a result.

    `intervals` is a point with its interval per row, `bars` a bar per row, `curve` pass@k and pass^k along k, `looks`
    those of a gate. `label` and `value` are columns; a dot leads into a nested record (`estimates.separation`). Without
    them, `bars` takes the first column of numbers and what names its rows. `source` is a field that holds the rows, by
    default `rows()`; `fields` are fields of the result that are a row each.
    """

    label: str = ""
    value: str = ""
    title: str = ""
    kind: Literal["intervals", "bars", "curve", "looks"] = "intervals"
    source: str = ""
    fields: tuple[str, ...] = ()


class Presentation(NamedTuple):
    """How one class of results is shown.

    `headline` is one sentence with fields in braces. `facts` are the plain fields that are shown, and `estimates` the
    fields with estimates, both in this order (None: all). `columns` are those of the main table, which is `rows()`
    (empty: all). `hidden` fields are shown nowhere: `to_json()` has them.
    """

    title: str = ""
    headline: str = ""
    facts: tuple[str, ...] | None = None
    estimates: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    drawing: Drawing | None = None


class Presentable(Protocol):
    """What is asked of a result in order to show it."""

    presentation: ClassVar[Presentation]
    __struct_fields__: ClassVar[tuple[str, ...]]

    def rows(self) -> list[dict[str, Any]]:
        """The main table."""
        ...
