"""What calls of models used in one command."""

from __future__ import annotations

import msgspec


class CallUse(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of models, those that a cache answered, and dollars; `cost_usd` is None where a call has no price."""

    calls: int = 0
    cached: int = 0
    cost_usd: float | None = 0.0
    at_least_usd: float = 0.0
