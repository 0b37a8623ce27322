"""What every question answers with: a typed record that becomes JSON or a data frame."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.errors import MissingExtra
from ethogram.estimate import json_number

SCHEMA_VERSION = 1


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sayable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_sayable(v) for v in value]
    return json_number(value) if isinstance(value, float) else value


class Result(msgspec.Struct, kw_only=True):
    """The base of all results; `schema_version` leads every JSON document."""

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
        """The rows as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.needed("df", "a data frame") from None
        return pd.DataFrame(self.rows())
