"""The environment variables of a program that acts as an agent: what it inherits, and what it never does."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from ethogram.errors import BadUsage

OURS = "ETHOGRAM_"
"""Our own settings are not inherited: among them are the keys that open sealed texts and undo redaction."""
BASIC = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""What a program needs to start at all; these, and `LC_*`, are all that a clean environment inherits."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Environment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program inherits of ours: everything but our own settings, or (`clean`) only what it needs to start.

    `passed` goes with it in either case; a value of None is taken from our own environment when the run starts.
    """

    passed: dict[str, str | None] = {}
    clean: bool = False

    def names_only(self) -> Environment:
        """Without values, which may be secrets: this is what a run records."""
        return msgspec.structs.replace(self, passed=dict.fromkeys(self.passed))

    def over(self, earlier: Environment) -> Environment:
        """This, and what an earlier session of the run was given."""
        return Environment(passed={**earlier.passed, **self.passed}, clean=self.clean or earlier.clean)

    def available(self) -> Environment:
        """Without the names that our own environment lacks now."""
        kept = {name: value for name, value in self.passed.items() if value is not None or name in os.environ}
        return msgspec.structs.replace(self, passed=kept)

    def resolved(self) -> Environment:
        """With the values that our own environment has now; a name that it lacks is refused."""
        found = {name: os.environ.get(name) if value is None else value for name, value in self.passed.items()}
        lost = next((name for name, value in found.items() if value is None), None)
        if lost is not None:
            raise BadUsage(
                f"{lost} is to be passed to the agent and is not in the environment (a run stores names, never "
                f"values); export it, or give --env {lost}=VALUE"
            )
        return msgspec.structs.replace(self, passed=found)

    def variables(self, ours: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a program; `ours` is this process's own environment by default."""
        ours = os.environ if ours is None else ours
        kept = {n: v for n, v in ours.items() if not n.startswith(OURS) and (not self.clean or _is_basic(n))}
        return kept | {name: value for name, value in self.passed.items() if value is not None}


def parse_environment(words: tuple[str, ...], clean: bool = False) -> Environment:
    """From words such as `NAME` and `NAME=VALUE`."""
    passed: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if _NAME.fullmatch(name) is None:
            raise BadUsage(f"--env {name!r} is not the name of a variable; write --env NAME or --env NAME=VALUE")
        passed[name] = value if equals else None
    return Environment(passed=passed, clean=clean)


def _is_basic(name: str) -> bool:
    return name in BASIC or name.startswith("LC_")
