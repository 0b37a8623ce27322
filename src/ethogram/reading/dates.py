"""The date and the author of a change."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime

from ethogram.errors import BadUsage


def now() -> str:
    """The time of a change, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def person(by: str | None) -> str:
    """The author of a change: the given name, else the user of this machine."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise BadUsage("say who does it, with --by NAME") from None
