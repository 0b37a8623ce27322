"""When a change is made, and by whom."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime

from ethogram.errors import BadUsage


def now() -> str:
    """The time of a change, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def person(by: str | None) -> str:
    """Who makes a change: as told, else the user of this machine."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise BadUsage("say who does it, with --by NAME") from None
