"""What every question answers with: a typed record that becomes JSON, a data frame, HTML or a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ethogram.display import Presentation
from ethogram.errors import MissingExtra
from ethogram.estimate import json_number

if TYPE_CHECKING:
    from ethogram.display.chart import Chart

SCHEMA_VERSION = 1


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sayable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_sayable(v) for v in value]
    return json_number(value) if isinstance(value, float) else value


class Result(msgspec.Struct, kw_only=True):
    """The base of all results; `schema_version` leads every JSON document.

    `presentation` declares what a notebook shows of a class of results; one that declares nothing shows its fields.
    """

    presentation: ClassVar[Presentation] = Presentation()

    schema_version: int = SCHEMA_VERSION

    def rows(self) -> list[dict[str, Any]]:
        """The result as rows, for tables and data frames."""
        built = msgspec.to_builtins(self)
        assert isinstance(built, dict)
        return [built]

    def to_json(self) -> str:
        """One JSON document: infinities are strings, because JSON has none."""
        return msgspec.json.encode(_sayable(msgspec.to_builtins(self))).decode()

    def to_df(self) -> Any:
        """The rows as a pandas data frame: the table that a notebook shows, with all rows and columns."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.needed("df", "a data frame") from None
        return pd.DataFrame(self.rows())

    def plot(self) -> Chart:
        """The picture of this result; a notebook shows it, `plot().save("picture.svg")` writes a file.

        Raises `BadUsage` where there is nothing to draw. To draw it takes the extra `charts`.
        """
        from ethogram.display.picture import chart_of

        return chart_of(self)

    def __repr__(self) -> str:
        """At most ten lines: a console shows this, a notebook the table below."""
        from ethogram.display.contents import contents_of
        from ethogram.display.plain import plain_of

        return plain_of(contents_of(self), type(self).__name__)

    def _repr_html_(self) -> str:
        from ethogram.display.contents import contents_of
        from ethogram.display.html import html_of

        return html_of(contents_of(self))
