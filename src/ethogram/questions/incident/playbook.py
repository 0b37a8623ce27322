"""The playbook: for each class of failure, the command that rolls a bad version back.

    # playbook.yaml
    loop:
      rollback: kubectl rollout undo deployment/agent
    other:
      rollback: git revert --no-edit HEAD && make deploy

The file is looked for in the current folder, beside the run's suite and beside the home; the first one found counts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ethogram.errors import BadInput
from ethogram.findings.findings import FAILURE_CLASSES
from ethogram.questions.why.owners import OTHER, places_beside
from ethogram.store import Run
from ethogram.suites.files import read_yaml

FILE = "playbook.yaml"


class Play(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about one class of failure."""

    rollback: str


def rollback_for(run: Run, failure: str | None, given: Path | None = None) -> tuple[str | None, str]:
    """The command for a class of failure, or None, and where it comes from or why there is none.

    `given` names the file; raises `BadInput` where it, or one that was found, cannot be used.
    """
    if given is not None and not given.is_file():
        raise BadInput(f"there is no playbook at {str(given)!r}", where=str(given))
    path = given or next((p for p in places_beside(run, FILE) if p.is_file()), None)
    if path is None:
        return (
            None,
            f"no {FILE} in the working folder, beside the suite or in the home; write one before the next incident",
        )
    plays = _read(path)
    for name in (failure, OTHER):
        if name is not None and name in plays:
            return plays[name].rollback, f"{path.name}, {name}"
    return None, f"{path.name} has no entry for {failure or 'an unknown class'} and none for {OTHER}"


def _read(path: Path) -> dict[str, Play]:
    known = (*FAILURE_CLASSES, OTHER)
    try:
        found = msgspec.convert(read_yaml(path, path.name) or {}, dict[str, Play])
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{path.name} cannot be used: {error}; write 'rollback: COMMAND' below each class", where=str(path)
        ) from None
    odd = sorted(found.keys() - set(known))
    if odd:
        raise BadInput(
            f"{path.name} names {odd[0]!r}, which is not a class; classes are: {', '.join(known)}", where=str(path)
        )
    return found
