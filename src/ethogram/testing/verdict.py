"""The verdict of a session on its marked tests: which of them fail alone, and the one verdict on all of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from ethogram.errors import EthogramError
from ethogram.questions.gate.ci import markdown
from ethogram.questions.gate.confirmation import Confirmation
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.task_verdicts import EachTask, gate_each_task
from ethogram.store import Run, compact, open_home
from ethogram.traces import refusal_words

from .reports import ATTEMPTS, FailureWords, make_report
from .session import PlayedAttempt, baseline_of, can_be_baseline, is_baseline, never_passed
from .settings import PluginSettings

MOST_SHOWN = 120
"""Characters of the first error of a test in one line."""
UNDECIDED = {"ethogram_verdict": "undecided"}
TestStanding = Literal["recorded", "replayed", "judged", "not judged"]


class EthogramWarning(pytest.PytestWarning):
    """A session of marked tests that could not be decided."""

    __module__ = "ethogram"


class TestedTask(NamedTuple):
    """One marked test, from its report."""

    report: pytest.TestReport
    task: str
    attempts: list[PlayedAttempt]
    failure: str

    @property
    def counts(self) -> tuple[int, int]:
        """How many attempts passed, and how many have an outcome."""
        known = [a.passed for a in self.attempts if a.passed is not None]
        return sum(known), len(known)

    @property
    def none_passed(self) -> str:
        """Of a test that passed in no attempt: how many they were, and what the first one came to, in one line."""
        first = self.attempts[0]
        why = ": ".join(filter(None, (first.reason, first.why.partition("\n")[0][:MOST_SHOWN])))
        return f"0 of {len(self.attempts)} attempts passed: {why}"


class SessionVerdict(NamedTuple):
    """The verdict of a session; `reports` are still to be logged, `problem` is why there is no verdict."""

    standing: TestStanding
    run: str
    baseline: str | None
    tests: list[TestedTask]
    reports: list[pytest.TestReport]
    judged: EachTask | None = None
    problem: str = ""


def judge_session(
    settings: PluginSettings, told: Sequence[pytest.TestReport], config: pytest.Config, *, whole: bool
) -> SessionVerdict:
    """Judge what the attempts of a session came to; a session that was stopped is not judged as a whole."""
    tests = [_tested(report) for report in told]
    home = open_home(settings.home)
    run = home.run(getattr(told[0], ATTEMPTS)["run"])
    if settings.live and whole:
        compact(run)  # every worker wrote files of its own
    never = _never_passed(run, tests)
    if not settings.live:
        return _replayed(run, tests, never)
    if is_baseline(run):
        problem = _unfit(run, tests, len(never))
        if problem is None:
            facts = {"ethogram_verdict": "recorded"}
            return SessionVerdict("recorded", run.name, None, tests, _finals(tests, {}, facts))
        reports = _finals(tests, never, UNDECIDED)
        return _undecided(SessionVerdict("not judged", run.name, None, tests, reports, None, problem), settings, config)
    base = baseline_of(home, settings.baseline, but=run.name)
    judged, problem = None, "the session was stopped before its end"
    if whole and base is not None:
        try:
            judged = gate_each_task(base, run, GateSettings(margin=settings.margin), home=home)
        except EthogramError as error:
            problem = str(error)
    name = None if base is None else base.name
    if judged is None:
        reports = _finals(tests, never if whole else {}, UNDECIDED)
        return _undecided(SessionVerdict("not judged", run.name, name, tests, reports, None, problem), settings, config)
    if settings.markdown is not None:
        Path(settings.markdown).write_text(markdown(judged.gate), encoding="utf-8")
    passed_before = {t.task for t in judged.tasks if t.base}
    failures = {t: words for t, words in never.items() if t not in passed_before}
    failures |= {t.task: _broken(t, judged) for t in judged.broken}
    reports = _finals(tests, failures, {"ethogram_verdict": judged.gate.verdict}, judged)
    verdict = SessionVerdict("judged", run.name, name, tests, reports, judged)
    if judged.gate.verdict == "regression":
        words = f"regression against {name}: {judged.gate.evidence.why}"
        return verdict._replace(reports=[*reports, _failed_verdict(words)])
    return verdict if judged.gate.verdict == "pass" else _undecided(verdict, settings, config)


def refused_words_of(tests: Sequence[TestedTask]) -> str:
    """What providers refused of the attempts of all tests, in words."""
    attempts = [a for test in tests for a in test.attempts]
    return refusal_words(Counter(a.reason for a in attempts if a.passed is None), len(attempts))


def _undecided(verdict: SessionVerdict, settings: PluginSettings, config: pytest.Config) -> SessionVerdict:
    """Say that nothing is decided: a warning, or under --ethogram-strict a failure."""
    why = verdict.problem if verdict.judged is None else verdict.judged.gate.evidence.why
    words = f"ethogram: undecided: {why}"
    reports = verdict.reports
    if settings.strict:
        return verdict._replace(reports=[*reports, _failed_verdict(words)])
    warning = warnings.WarningMessage(EthogramWarning(words), EthogramWarning, "", 0)
    noted: Any = {"warning_message": warning, "when": "runtest", "nodeid": "", "location": None}
    config.hook.pytest_warning_recorded.call_historic(kwargs=noted)
    return verdict._replace(reports=reports)


def _never_passed(run: Run, tests: Sequence[TestedTask]) -> dict[str, str]:
    """What to say of each test that passed in no attempt, and was not declared to."""
    never = {*never_passed(run)}
    advice = 'mend it, or say that it cannot pass yet: @pytest.mark.ethogram(expect="fails")'
    return {t.task: f"{t.none_passed}\n{advice}" for t in tests if t.task in never}


def _unfit(run: Run, tests: Sequence[TestedTask], never: int) -> str | None:
    """Why a run cannot be the baseline of later ones."""
    if not can_be_baseline(run):
        return f"{refused_words_of(tests) or 'no attempt has a score'}, so this is not a baseline"
    return f"this is not a baseline, for {never} of its tests passed in no attempt" if never else None


def _replayed(run: Run, tests: list[TestedTask], never: dict[str, str]) -> SessionVerdict:
    """A replay has no verdict: a test fails where an attempt deviates from its record, or no longer passes."""
    failures = {t.task: never[t.task] for t in tests if t.task in never and not any(a.recorded for a in t.attempts)}
    for test in tests:
        words = [said for attempt in test.attempts if (said := _broken_replay(attempt))]
        if words:
            more = [f"and {len(words) - 1} more of {len(test.attempts)} attempts"] if words[1:] else []
            failures[test.task] = "\n".join([words[0], *more])
    reports = _finals(tests, failures, {"ethogram_verdict": "replayed"})
    return SessionVerdict("replayed", run.name, str(run.info.plan.get("replays")), tests, reports)


def _broken_replay(attempt: PlayedAttempt) -> str | None:
    if attempt.passed is None:
        return f"attempt {attempt.attempt}: {attempt.reason}: {attempt.why}"
    if attempt.recorded and not attempt.passed:
        return f"attempt {attempt.attempt} passed when it was recorded, and fails on the same answers: {attempt.why}"
    return None  # one that failed when it was recorded says nothing


def _broken(task: Confirmation, judged: EachTask) -> str:
    alpha = judged.gate.settings.confirm_alpha
    return (
        f"this test got worse by itself: {task.again:.0%} of {task.attempts} attempts passed, {task.base:.0%} in the "
        f"baseline (exact test, Holm over {len(judged.tasks)} tests: p {task.p:.2g}, alpha {alpha:g})"
    )


def _tested(report: pytest.TestReport) -> TestedTask:
    told = getattr(report, ATTEMPTS)
    return TestedTask(report, told["task"], msgspec.convert(told["attempts"], list[PlayedAttempt]), told["failure"])


def _finals(
    tests: Sequence[TestedTask],
    failures: dict[str, str],
    facts: dict[str, str],
    judged: EachTask | None = None,
) -> list[pytest.TestReport]:
    """The three phases of every test, as pytest would have logged them."""
    tasks = {} if judged is None else {t.task: t for t in judged.tasks}
    reports = []
    for test in tests:
        words = failures.get(test.task)
        # what a client raises after a deviation is only its consequence
        if words is not None and any(a.passed is False for a in test.attempts):
            words = f"{words}\n\nthe first that failed, {test.failure}".rstrip(", ")
        properties = [*test.report.user_properties, *_properties(test, tasks.get(test.task)), *facts.items()]
        more = {"node": test.report.node} if hasattr(test.report, "node") else {}
        for phase in ("setup", "call", "teardown"):
            ended: dict[str, Any] = {"user_properties": properties, **more}
            if phase == "call":
                ended["duration"] = test.report.duration
                ended |= {} if words is None else {"outcome": "failed", "longrepr": FailureWords(words)}
            reports.append(make_report(test.report.nodeid, test.report.location, phase, **ended))
    return reports


def _properties(test: TestedTask, compared: Confirmation | None) -> list[tuple[str, object]]:
    passed, scored = test.counts
    told: list[tuple[str, object]] = [
        ("ethogram_run", getattr(test.report, ATTEMPTS)["run"]),
        ("ethogram_attempts", len(test.attempts)),
        ("ethogram_passed", passed),
        ("ethogram_missing", len(test.attempts) - scored),
    ]
    failing = next((a.trace for a in test.attempts if a.passed is False), None)
    told += [("ethogram_failing_trace", failing)] if failing else []
    if compared is not None:
        told += [("ethogram_baseline_rate", compared.base), ("ethogram_p", compared.p)]
    return told


def _failed_verdict(words: str) -> pytest.TestReport:
    """The verdict as one more test that failed: the exit code and a JUnit file follow."""
    where = ("ethogram", None, "verdict of ethogram")
    return make_report("ethogram::verdict", where, "call", outcome="failed", longrepr=FailureWords(words))
