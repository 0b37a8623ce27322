"""Owners of failure classes, and what to try first: a built-in table, overridden by `owners.toml`.

    [loop]
    owner = "runtime team"
    try = "stop after the third identical call and tell the model so"

The file is looked for in the current folder, beside the run's suite and beside the home; the first one found counts.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import msgspec

from ethogram.errors import BadInput
from ethogram.findings.findings import FailureClass
from ethogram.store import Run
from ethogram.store.files import LocalFiles

FILE = "owners.toml"
OTHER = "other"
"""Stands in `owners.toml` for causes that belong to no class."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A team and the fix to try first."""

    owner: str | None = None
    try_: str = msgspec.field(name="try", default="")


DEFAULTS: dict[str, Owner] = {
    "wrong_tool": Owner(
        owner="tools", try_="say in each tool's description when to use it and when not; merge tools that overlap"
    ),
    "bad_args": Owner(
        owner="tools",
        try_="narrow the argument's schema, refuse bad values with a message that says what is allowed, and check that "
        "the needed value is still in the context",
    ),
    "hallucinated_state": Owner(
        owner="context", try_="ask for a read before every write, and keep what was read in the context"
    ),
    "gave_up": Owner(
        owner="prompt", try_="say that one failed call is not a reason to stop, and show how much budget is left"
    ),
    "loop": Owner(
        owner="harness", try_="detect the third identical call, stop it, and tell the model what it already tried"
    ),
    "budget": Owner(
        owner="harness",
        try_="look at what used up the budget; raise the cap only if successful attempts come close to it",
    ),
    "infrastructure": Owner(owner="platform", try_="repair or retry the service, then run these attempts again"),
    OTHER: Owner(owner="agent", try_="read the examples beside a successful attempt of the same task"),
}


def owners_of(run: Run) -> dict[str, Owner]:
    """The table that counts for a run: the defaults, and what the first `owners.toml` found says instead."""
    found = dict(DEFAULTS)
    for place in places_beside(run, FILE):
        if place.is_file():
            for name, said in _read(place).items():
                before = found[name]
                found[name] = Owner(owner=said.owner or before.owner, try_=said.try_ or before.try_)
            break
    return found


def places_beside(run: Run, name: str) -> list[Path]:
    """Where a file about a run is looked for: in the current folder, beside its suite, beside its home."""
    places = [Path(name)]
    suite = run.info.plan.get("suite")
    if isinstance(suite, str):
        places += [Path(suite) / name, Path(suite).parent / name]
    if isinstance(run.files, LocalFiles):
        places += [run.files.root / name, run.files.root.parent / name]
    return places


def _read(path: Path) -> dict[str, Owner]:
    known = (*get_args(FailureClass), OTHER)
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Owner])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadInput(
            f"{FILE} cannot be read: {error}; write a table per class with owner and try", where=str(path)
        ) from None
    odd = sorted(found.keys() - set(known))
    if odd:
        raise BadInput(
            f"{FILE} names {odd[0]!r}, which is not a class; classes are: {', '.join(known)}", where=str(path)
        )
    return found
