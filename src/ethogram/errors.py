"""Every error that Ethogram raises on purpose.

    EthogramError                 exit code
    ├── BadInput                  64   the caller gave something that cannot be used
    │   ├── BadUsage              64   an option or an argument makes no sense
    │   ├── NotFound              64   a run, trace, file or name does not exist
    │   ├── Unreadable            64   a file is not what it claims to be
    │   └── Locked                64   another process is at work there
    ├── Refused                   2    there is not enough evidence to answer
    ├── MachineFailure            2    the machine or the cluster failed; what was committed stays
    ├── Damaged                   1    what is stored no longer matches its hash
    ├── Sealed                    64   the key to encrypted payloads is not at hand
    └── MissingExtra              64   an optional dependency is not installed

A message is one sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations


class EthogramError(Exception):
    """The root of the tree; `exit_code` is what the command line returns."""

    exit_code = 64


class BadInput(EthogramError):
    """The caller gave something that cannot be used."""


class BadUsage(BadInput):
    """An option or an argument makes no sense."""


class NotFound(BadInput):
    """A run, trace, file or name does not exist."""

    @classmethod
    def named(cls, what: str, name: str, known: list[str]) -> NotFound:
        """Say what is missing, and the nearest name that does exist."""
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1) or [k for k in known if len(name) > 2 and name in k][:1]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if not near and known:
            shown = ", ".join(sorted(known)[:8]) + (", …" if len(known) > 8 else "")
            hint = f"; known: {shown}"
        return cls(f"no {what} named {name!r}{hint}")


class Unreadable(BadInput):
    """A file is not what it claims to be."""


class Locked(BadInput):
    """Another process is at work there."""


class Refused(EthogramError):
    """There is not enough evidence to answer."""

    exit_code = 2


class MachineFailure(EthogramError):
    """The machine or the cluster failed (a full disk, no memory, no worker): work stops, what was committed stays."""

    exit_code = 2


class Damaged(EthogramError):
    """What is stored no longer matches its hash."""

    exit_code = 1


class Sealed(EthogramError):
    """The key to encrypted payloads is not at hand."""


class MissingExtra(EthogramError):
    """An optional dependency is not installed."""

    @classmethod
    def needed(cls, extra: str, purpose: str) -> MissingExtra:
        """Name the extra to install and what it is needed for."""
        return cls(f"{purpose} needs the extra {extra!r}; install it with: pip install 'ethogram[{extra}]'")
