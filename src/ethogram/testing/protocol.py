"""One marked test: fixtures, body and teardown once per attempt, and one report on all attempts."""

from __future__ import annotations

import ast
import inspect
import textwrap
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from _pytest.runner import call_and_report

from ethogram.errors import EthogramError
from ethogram.harness.faults import Fault
from ethogram.plans import Episode
from ethogram.traces import REASON_FACTS, cut_whole

from .fixture import EpisodeFixture
from .plugin import EPISODE, RAISED
from .reports import ATTEMPTS, make_report
from .session import AttemptsSession, MarkedTest, PlayedAttempt
from .settings import MARK, PluginSettings, read_mark, task_of_item
from .turns import PlayedBody, Turn

MOST_WORDS = 500


class Player:
    """Plays the marked tests of one process."""

    def __init__(self, settings: PluginSettings, items: Sequence[pytest.Item], uid: str) -> None:
        """What cannot be done at all is told by every marked test."""
        self._session: AttemptsSession | None = None
        self._problem = ""
        try:
            self._session = AttemptsSession(settings, list(_marked(items)), uid)
        except EthogramError as error:
            self._problem = str(error)

    def play(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Play all attempts of a test, and report them; a fixture that fails and a skip are reported as they are."""
        if self._session is None:
            refuse(item, self._problem, nextitem)
            return
        test = _Attempts(item)
        try:
            for episode in self._session.episodes(task_of_item(item)):
                if not test.attempt(episode, self._session):
                    break
        except EthogramError as error:
            refuse(item, str(error), nextitem)
            return
        ended = _end_fixtures(item, nextitem)
        for report in (*test.reports, *([ended] if ended.failed else ())):
            item.ihook.pytest_runtest_logreport(report=report)
        if not test.unscored:
            item.ihook.pytest_runtest_logreport(report=test.report(self._session.run.name))

    def close(self) -> None:
        """Commit all attempts."""
        if self._session is not None:
            self._session.close()
            self._session = None


def refuse(item: pytest.Item, sentence: str, nextitem: pytest.Item | None) -> None:
    """Report a test that cannot be played: an error with one sentence."""
    wanted: Any = {"nodeid": item.nodeid, "location": item.location, "keywords": {}, "when": "setup"}
    failed = pytest.TestReport(**wanted, outcome="failed", longrepr=sentence)
    for report in (failed, _end_fixtures(item, nextitem)):
        item.ihook.pytest_runtest_logreport(report=report)


class _Attempts:
    """The attempts of one test while they are played."""

    def __init__(self, item: pytest.Item) -> None:
        self._item: Any = item  # what runs a test again needs names that pytest does not publish
        self._played: list[PlayedAttempt] = []
        self._failure = ""
        self.unscored = False
        """Whether a fixture failed or the test was skipped: pytest's own reports tell it then."""
        self.reports: list[pytest.TestReport] = []
        """What pytest is to be told beside the attempts."""

    def attempt(self, planned: Episode, session: AttemptsSession) -> bool:
        """Play one attempt, with fixtures of its own; returns whether to continue."""
        item = self._item
        if not item._request:  # pytest takes it away after a test, and so do we below
            item._initrequest()
        fixture = item.stash[EPISODE] = EpisodeFixture(planned)
        item.user_properties.clear()
        item._report_sections.clear()
        begun = call_and_report(item, "setup", log=False)
        played = None
        try:
            if begun.passed:
                played = session.carry_out(planned, lambda turn: self._turn(turn, fixture))
        finally:
            # its parent in place of a next item ends the fixtures of this test only
            ended = call_and_report(item, "teardown", log=False, nextitem=item.parent)
            item._request, item.funcargs = False, None
            del item.stash[EPISODE]
        if not begun.passed:
            self.unscored, self.reports = True, [begun, ended]
        elif ended.failed and not self.reports:
            self.reports = [ended]
        if played is None or self.unscored:
            return False
        self._played.append(played)
        return played.reason not in REASON_FACTS or not REASON_FACTS[played.reason].ended

    def _turn(self, turn: Turn, fixture: EpisodeFixture) -> PlayedBody:
        """Play the body once."""
        fixture.begin(turn.handle)
        report = call_and_report(self._item, "call", log=False)
        if report.skipped:
            self.unscored, self.reports = True, [report]
            return PlayedBody(fixture, "unscored", f"skipped: {_reason(report)}")
        if report.passed:
            return PlayedBody(fixture, "passed")
        raised = self._item.stash[RAISED]
        why = cut_whole(" ".join(f"{type(raised).__name__}: {raised}".split()), MOST_WORDS)
        if self._could_not_run(raised):
            self.unscored, self.reports = True, [report]
            return PlayedBody(fixture, "unscored", why)
        self._failure = self._failure or f"attempt {fixture.attempt}:\n{_failure_text(report)}"
        return PlayedBody(fixture, "failed", why, raised_by_agent(raised))

    def _could_not_run(self, raised: BaseException | None) -> bool:
        """Whether the test failed and no agent did: its body never began, or it cannot be what it is declared to be.

        A coroutine that no plug-in awaits never begins. A module that cannot be imported is a failed attempt, for an
        agent may have had to write it; but nobody declares that.
        """
        code = getattr(getattr(self._item, "function", None), "__code__", None)
        if raised is None or code is None or isinstance(raised, BaseExceptionGroup):
            return False
        mark = read_mark(self._item)
        if isinstance(raised, ImportError) and mark is not None and mark.fails:
            return True
        return all(frame.f_code is not code for frame, _ in traceback.walk_tb(raised.__traceback__))

    def report(self, run: str) -> pytest.TestReport:
        """The report on all attempts."""
        passed = [p.passed for p in self._played]
        told = {
            "run": run,
            "task": task_of_item(self._item),
            "passed": passed.count(True),
            "scored": len(passed) - passed.count(None),
            "attempts": msgspec.to_builtins(self._played),
            "failure": self._failure,
        }
        duration, properties = sum(p.seconds for p in self._played), list(self._item.user_properties)
        more = {"duration": duration, "user_properties": properties, ATTEMPTS: told}
        return make_report(self._item.nodeid, self._item.location, ATTEMPTS, **more)


def raised_by_agent(raised: BaseException | None) -> Exception | None:
    """What the harness is to judge of what a body raised: nothing of a failed assertion, which the score tells."""
    if isinstance(raised, AssertionError | pytest.fail.Exception) or raised is None:
        return None
    ours = isinstance(raised, EthogramError) and not isinstance(raised, Fault)
    if ours or not isinstance(raised, Exception):
        return RuntimeError(f"{type(raised).__name__}: {raised}")  # it ends the attempt, not the run
    return raised


def _marked(items: Sequence[pytest.Item]) -> list[MarkedTest]:
    """The tests whose mark can be obeyed; the others are refused when their turn comes."""
    found = []
    for item in items:
        try:
            mark = read_mark(item)
        except pytest.UsageError:
            continue
        if mark is not None:
            function = getattr(item, "function", None)
            words = inspect.getdoc(function) or item.name
            found.append(MarkedTest(task_of_item(item), words, _source(function), mark))
    return found


def _source(function: Any) -> str:
    """What a test does, however it is laid out and however often it is to be attempted."""
    try:
        made = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):  # made at run time: its name is all that is known of it
        return ""
    if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
        made.decorator_list = [d for d in made.decorator_list if f"mark.{MARK}" not in ast.unparse(d)]
    return ast.unparse(made)


def _end_fixtures(item: Any, nextitem: pytest.Item | None) -> pytest.TestReport:
    """End the fixtures of modules and sessions that the next test does not need."""
    ending = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")
    return pytest.TestReport.from_item_and_call(item, ending)


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return cut_whole(" ".join(told.split()), MOST_WORDS)


def _failure_text(report: pytest.TestReport) -> str:
    return "\n".join([report.longreprtext, *(f"--- {name} ---\n{text}" for name, text in report.sections)])
