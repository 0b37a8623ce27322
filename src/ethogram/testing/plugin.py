"""What pytest loads (entry point `pytest11`): options, the mark, the fixture, and hooks that wait for a mark."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .reports import ATTEMPTS
from .settings import MARK, PluginSettings, add_options, read_mark, read_settings

if TYPE_CHECKING:
    from .fixture import EpisodeFixture
    from .protocol import Player
    from .verdict import SessionVerdict

EPISODE = pytest.StashKey["EpisodeFixture"]()
RAISED = pytest.StashKey[Any]()
"""What the body of a marked test raised in its latest attempt."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark and check the options."""
    words = "run the test k times, as attempts of a task; all marked tests together get one verdict"
    settings = "k=5, max_usd=…, max_steps=…, max_tokens=…, expect='fails'"
    config.addinivalue_line("markers", f"{MARK}({settings}): {words}")
    config.pluginmanager.register(MarkedTests(config, read_settings(config)), "ethogram-marked-tests")


@pytest.fixture
def episode(request: pytest.FixtureRequest) -> EpisodeFixture:
    """This attempt of a test that is marked `ethogram`: note its answer and its checks, call its tools."""
    found: EpisodeFixture | None = request.node.stash.get(EPISODE, None)
    if found is None:
        pytest.fail("the fixture 'episode' is for tests with @pytest.mark.ethogram", pytrace=False)
    return found


class MarkedTests:
    """The hooks of one process: a worker plays attempts, a controller judges, a session without workers does both."""

    def __init__(self, config: pytest.Config, settings: PluginSettings) -> None:
        self._config = config
        self._settings = settings
        self._input: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._player: Player | None = None
        self._told: list[pytest.TestReport] = []
        self._verdict: SessionVerdict | None = None
        self._logging = False

    def pytest_sessionstart(self) -> None:
        """Where answers come from a record, clients that test modules make while they are imported find a key."""
        if self._settings.live or not Path(self._settings.home, "runs").is_dir():
            return
        from .session import capture_early

        capture = capture_early(self._settings)
        if capture is not None:
            capture.__enter__()
            self._config.add_cleanup(lambda: capture.__exit__())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Play all attempts of a marked test."""
        if item.get_closest_marker(MARK) is None:
            return None
        from .protocol import Player, refuse

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            read_mark(item)
        except pytest.UsageError as error:
            refuse(item, str(error), nextitem)
        else:
            if self._player is None:
                uid = secrets.token_hex(8) if self._input is None else str(self._input["testrunuid"])
                self._player = Player(self._settings, item.session.items, uid)
            self._player.play(item, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Remember what the body raised: the harness asks whose fault it was."""
        if call.when == "call" and EPISODE in item.stash:
            item.stash[RAISED] = None if call.excinfo is None else call.excinfo.value
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the attempts of a test came to, until all tests were played."""
        if self._input is None and report.when == ATTEMPTS:
            self._told.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Attempts are shown as they end, e.g. `4/5`; what the session says of them later is counted, not shown."""
        told = getattr(report, ATTEMPTS, None)
        if told is None:
            return None
        if report.when == ATTEMPTS:
            share = f"{told['passed']}/{told['scored']}"
            return "", f"{share} ", f"{share} passed"
        return (report.outcome if report.when == "call" else "", "", "") if self._logging else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """After the last test: commit the attempts, ask for the verdict, and log how every marked test ended."""
        whole = False
        try:
            ended = yield
            whole = True
        finally:
            if self._player is not None:
                self._player.close()
            if self._told:
                from .verdict import judge_session

                self._verdict = judge_session(self._settings, self._told, self._config, whole=whole)
                self._logging = True
                for report in self._verdict.reports:
                    self._config.hook.pytest_runtest_logreport(report=report)
                self._logging = False
        return ended

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A session that would pass, although a provider refused calls of it, ends undecided: exit code 2."""
        if self._verdict is not None and session.exitstatus == pytest.ExitCode.OK:
            from .verdict import refused_words_of

            if refused_words_of(self._verdict.tests):
                session.exitstatus = pytest.ExitCode.INTERRUPTED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A section with the verdict."""
        if self._verdict is None:
            return
        from .summary import write_section

        write_section(terminalreporter, self._verdict, self._settings)
