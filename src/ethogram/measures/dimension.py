"""An axis of a field: one number that is measured of every trajectory."""

from __future__ import annotations

import msgspec


class Dimension(msgspec.Struct, frozen=True):
    """One number that a `Field` measures of every trajectory: its name, and what it means."""

    name: str
    description: str = ""
