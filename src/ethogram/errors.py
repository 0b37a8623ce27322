"""Every error that Ethogram raises on purpose, and the facts that each carries.

    EthogramError             exit code   attributes
    ├── BadInput              64   where                           the caller gave something that cannot be used
    │   ├── BadUsage          64   where, option, value, choices   an option or an argument makes no sense
    │   ├── NotFound          64   where, what, name, known        a run, trace, file or name does not exist
    │   ├── Unreadable        64   where                           a file is not what it claims to be
    │   ├── Locked            64   where                           another process is at work there
    │   └── NeedsPosix        64   where                           this system lacks what Linux and macOS have
    ├── Refused               2    estimate, have, need, of        there is not enough evidence to answer
    ├── MachineFailure        2                                    the machine or cluster failed; committed work stays
    ├── Damaged               1    where                           what is stored no longer matches its hash
    ├── Sealed                64   key                             the key to encrypted payloads is not at hand
    └── MissingExtra          64   extra                           an optional dependency is not installed

A message is one sentence: what is wrong, where, and what to do. The attributes repeat its facts for programs: a fact
that is not known at the place where the error is raised is None. For example
`except Refused as error: print(error.need - error.have, error.of)` says how much evidence is lacking.

Messages are written with options as the command line spells them (`--min-coverage`): `cli_message`. `str(error)` of a
`BadInput` or a `Refused` names the parameters of Python instead (`min_coverage`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .estimate import Estimate


_FLAG = re.compile(
    r"""(?P<kept>(?<!\w)'[^']*' | (?<!\w)"[^"]*" | \bethogram\ [a-z]+\b[^;,)]*)  # a quotation, a command to be pasted
    | (?<![\w/-])(?:--(?P<long>[a-z][a-z0-9-]*)|-(?P<short>[a-z])\b)(?:[ ](?P<metavar>[A-Z_]{2,})\b)?""",
    re.VERBOSE,
)


def parameter_names(message: str) -> str:
    """A message with the options of the command line as parameters of Python.

    Example: `parameter_names("give --max-usd")` gives `give max_usd`; `--why REASON` becomes `why=REASON`.
    """

    def spelled(match: re.Match[str]) -> str:
        if match["kept"]:
            return match["kept"]
        name = (match["long"] or match["short"]).replace("-", "_")
        return f"{name}={match['metavar']}" if match["metavar"] else name

    return _FLAG.sub(spelled, message) if "-" in message else message


def first_line(error: BaseException, most: int | None = None) -> str:
    """What an error of somebody else says, for one sentence of ours: its first line, else the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]


class EthogramError(Exception):
    """The root of the tree; `exit_code` is what the command line returns, `cli_message` what it prints."""

    exit_code = 64
    _written: str | None = None

    @property
    def cli_message(self) -> str:
        """The message with options as the command line spells them."""
        return str(self) if self._written is None else self._written


class BadInput(EthogramError):
    """The caller gave something that cannot be used; `where` is its file, line or record, if it has a place."""

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(parameter_names(message))
        self._written = message
        self.where = where

    @classmethod
    def at(cls, where: str, problem: str) -> Self:
        """The error whose message begins with its place: `suite.yaml: the task has no id`."""
        return cls(f"{where}: {problem}", where=where)


class BadUsage(BadInput):
    """An option or an argument makes no sense.

    Where one parameter is to blame, `option` is its name in Python, `value` what was given, `choices` what it may be.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        option: str | None = None,
        value: object = None,
        choices: Sequence[str] = (),
    ) -> None:
        super().__init__(message, where=where)
        self.option = option
        self.value = value
        self.choices = tuple(choices)

    @classmethod
    def about(cls, option: str, problem: str, value: object, choices: Sequence[str] = ()) -> BadUsage:
        """The error whose message begins with the option: `BadUsage.about("alpha", "must be below 0.5, not 2", 2)`."""
        flag = f"--{option.replace('_', '-')}" if len(option) > 1 else f"-{option}"
        return cls(f"{flag} {problem}", option=option, value=value, choices=choices)


_LISTS = {
    "metric": "ethogram compare --help",
    "operator": "ethogram operators",
    "reader": "ethogram import --help",
    "standard dimension": "ethogram field --list",
}
"""The command that lists all names of a kind."""


class NotFound(BadInput):
    """A run, trace, file or name does not exist.

    Of something that has a name, `what` is its kind, `name` the one that was asked for, `known` those that exist.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        what: str | None = None,
        name: str | None = None,
        known: Sequence[str] = (),
    ) -> None:
        super().__init__(message, where=where)
        self.what = what
        self.name = name
        self.known = tuple(known)

    @classmethod
    def named(cls, what: str, name: str, known: list[str], *, where: str | None = None) -> NotFound:
        """Say what is missing, where it was looked for, and the nearest name that does exist."""
        from difflib import get_close_matches

        known = [k for k in known if k]
        near = get_close_matches(name, known, n=1) or [k for k in known if len(name) > 2 and name in k][:1]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if not near and known:
            more = f" and {len(known) - 8} more" if len(known) > 8 else ""
            all_by = f"; {_LISTS[what]} lists all" if more and what in _LISTS else ""
            hint = f"; known: {', '.join(sorted(known)[:8])}{more}{all_by}"
        place = f" in {where}" if where else ""
        return cls(f"no {what} named {name!r}{place}{hint}", where=where, what=what, name=name, known=known)


class Unreadable(BadInput):
    """A file is not what it claims to be."""


class Locked(BadInput):
    """Another process is at work there."""


class NeedsPosix(BadInput):
    """This system lacks what Linux and macOS have."""

    @classmethod
    def check(cls, purpose: str) -> None:
        """Raise where this system cannot do something, and say where it can be done."""
        if not hasattr(os, "fork"):
            raise cls(f"{purpose} needs Linux or macOS; on Windows, use it inside WSL")


class Refused(EthogramError):
    """There is not enough evidence to answer.

    There are `have` of what `of` names (for example `scored traces`), and an answer takes at least `need`; `estimate`
    is what can be said so far.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        have: int | None = None,
        need: int | None = None,
        of: str | None = None,
        estimate: Estimate | None = None,
    ) -> None:
        super().__init__(parameter_names(message))
        self._written = message
        self.have = have
        self.need = need
        self.of = of
        self.estimate = estimate


class MachineFailure(EthogramError):
    """The machine or the cluster failed (a full disk, no memory, no worker): work stops, what was committed stays."""

    exit_code = 2


class Damaged(EthogramError):
    """What is stored no longer matches its hash; `where` is the file."""

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class Sealed(EthogramError):
    """The key to encrypted payloads is not at hand; `key` is its name."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class MissingExtra(EthogramError):
    """An optional dependency is not installed; `extra` is what to install."""

    def __init__(self, message: str, *, extra: str | None = None) -> None:
        super().__init__(message)
        self.extra = extra

    @classmethod
    def needed(cls, extra: str, purpose: str) -> MissingExtra:
        """Name the extra to install and what it is needed for."""
        return cls(
            f"{purpose} needs the extra {extra!r}; install it with: pip install 'ethogram[{extra}]'", extra=extra
        )
