"""Settings of the checks of layer L3, which look at what an agent left behind: files, rows, services, tests.

They are here so that a suite can be read and refused without running anything; `run` carries them out.
"""

from __future__ import annotations

import ipaddress
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from ethogram.traces import Layer

from .settings import OWN_KINDS, CheckSettings, TextRule, bad_name, bad_rule, suite_files


class FilesCheck(CheckSettings):
    """`files: {exists: […], absent: […], only: […], content: {name: text or checks}}`; names may be globs."""

    layer: ClassVar[Layer] = "L3"
    main: ClassVar[str] = "exists"

    exists: list[str] = []
    absent: list[str] = []
    only: list[str] | None = None
    content: dict[str, TextRule] = {}

    def problem(self, expected: Any) -> str | None:
        """Something must be demanded, inside the workspace."""
        if not (self.exists or self.absent or self.content) and self.only is None:
            return "demands nothing: set 'exists', 'absent', 'only' or 'content'"
        for name in (*self.exists, *self.absent, *(self.only or ()), *self.content):
            if bad_name(name):
                return f"names {name!r}, which is not inside the workspace"
        return next((p for rule in self.content.values() if (p := bad_rule(rule)) is not None), None)


class SqlRow(CheckSettings):
    """`sql_row: {database: shop.db, query: …, row: […] | rows: […] | count: n}`; by default any row will do."""

    layer: ClassVar[Layer] = "L3"
    main: ClassVar[str] = "query"

    database: str
    query: str
    parameters: list[Any] | dict[str, Any] = []
    row: Any = msgspec.UNSET
    rows: list[Any] | None = None
    count: int | None = None
    ordered: bool = False
    tolerance: float = 0.0
    timeout: float = 10.0

    def problem(self, expected: Any) -> str | None:
        """The database lies inside the workspace."""
        return f"names {self.database!r}, which is not inside the workspace" if bad_name(self.database) else None


class HttpState(CheckSettings):
    """`http_state: http://127.0.0.1:8000/orders/7` with `status`, `has: {path: value}`, `body`.

    `{name}` in the address is one of the task's inputs. Only this machine is asked unless `allow_remote`.
    """

    layer: ClassVar[Layer] = "L3"
    main: ClassVar[str] = "url"

    url: str
    status: int | None = 200
    has: dict[str, Any] = {}
    body: TextRule | None = None
    headers: dict[str, str] = {}
    timeout: float = 5.0
    allow_remote: bool = False
    unreachable: Literal["fault", "fail"] = "fault"

    def problem(self, expected: Any) -> str | None:
        """It must be an HTTP address."""
        if not self.url.startswith(("http://", "https://")):
            return f"asks {self.url!r}, which is not an http address"
        if not self.allow_remote and "{" not in self.url.split("/")[2] and not is_here(self.url):
            return f"asks {self.url!r}, which is not on this machine; set 'allow_remote: true' if you mean it"
        return bad_rule(self.body)


def is_here(url: str) -> bool:
    """Whether an address is one of this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Command(CheckSettings):
    """`command: make check`, or a list of words; `{python}` and `{suite}` are filled in."""

    layer: ClassVar[Layer] = "L3"
    main: ClassVar[str] = "run"

    run: str | list[str]
    exit: int | None = 0
    stdout: TextRule | None = None
    timeout: float = 60.0
    env: dict[str, str] = {}
    on_timeout: Literal["fail", "fault"] = "fail"

    def problem(self, expected: Any) -> str | None:
        """Something must be run, and demanded."""
        if not self.run:
            return "has no command to run"
        if self.exit is None and self.stdout is None:
            return "demands nothing: set 'exit' or 'stdout'"
        return bad_rule(self.stdout)

    def files(self) -> list[str]:
        """What it runs from the suite."""
        return suite_files(self.run)


class NamedTests(CheckSettings):
    """`tests: {fail_to_pass: [tests/test_a.py::test_x], pass_to_pass: […]}`, in a clean copy of the workspace.

    `test_files` are restored from the suite: a list of names among the task's files, or a mapping from names in the
    workspace to files of the suite that the agent never saw; files that hold named tests are restored anyway.
    `command` is the runner, by default pytest. It writes a JUnit file at `{report}` for `{files}` or `{tests}` (both
    are appended, as pytest takes them, where it names none of these), or runs one `{test}` at a time by exit code.
    `probe` is a command that succeeds if and only if the runner works on this machine.
    """

    layer: ClassVar[Layer] = "L3"
    main: ClassVar[str] = "fail_to_pass"

    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    test_files: list[str] | dict[str, str] = []
    command: str | list[str] | None = None
    probe: str | list[str] | None = None
    timeout: float = 300.0
    env: dict[str, str] = {}
    on_timeout: Literal["fail", "fault"] = "fail"

    def problem(self, expected: Any) -> str | None:
        """Some test must be named, and its result must be readable."""
        if not self.tests:
            return "names no tests: set 'fail_to_pass' or 'pass_to_pass'"
        wrong = next((n for n in (*self.test_files, *self.files_of_tests()) if bad_name(n)), None)
        if wrong is not None:
            return f"names {wrong!r}, which is not inside the workspace"
        words = self.command if isinstance(self.command, str) else " ".join(self.command or [])
        if ("{tests}" in words or "{files}" in words) and "{report}" not in words:
            return "has a command without {report}: let it write a JUnit file there, or run one {test} at a time"
        return None

    @property
    def tests(self) -> list[str]:
        """All named tests, once each."""
        return list(dict.fromkeys((*self.fail_to_pass, *self.pass_to_pass)))

    def files(self) -> list[str]:
        """Test files that the agent never saw, and what the runner takes from the suite."""
        hidden = list(self.test_files.values()) if isinstance(self.test_files, dict) else []
        return [*hidden, *suite_files(self.command or []), *suite_files(self.probe or [])]

    def files_of_tests(self) -> list[str]:
        """The files that contain the named tests."""
        return list(dict.fromkeys(t.partition("::")[0] for t in self.tests))


OWN_KINDS.update(files=FilesCheck, sql_row=SqlRow, http_state=HttpState, command=Command, tests=NamedTests)
