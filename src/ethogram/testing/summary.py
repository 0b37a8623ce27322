"""The section of the terminal: the verdict, the tests that moved, and what a decision needs."""

from __future__ import annotations

import pytest

from ethogram.questions.compare.moved_words import SHOWN, sentence
from ethogram.questions.gate.ci import needed

from .settings import PluginSettings
from .verdict import SessionVerdict

COLOURS = {"pass": "green", "regression": "red", "undecided": "yellow"}


def write_section(terminal: pytest.TerminalReporter, verdict: SessionVerdict, settings: PluginSettings) -> None:
    """Write what people need to know of their marked tests."""
    terminal.section("ethogram")
    for line, colour in _lines(verdict, settings):
        terminal.write_line(line, **({colour: True} if colour else {}))
    failed = {r.nodeid for r in verdict.reports if r.failed}
    for test in verdict.tests:
        if test.attempts and not test.counts[0] and test.report.nodeid not in failed:
            terminal.write_line(f"{test.task}: {test.none_passed}")


def _lines(verdict: SessionVerdict, settings: PluginSettings) -> list[tuple[str, str]]:
    attempts = sum(len(t.attempts) for t in verdict.tests)
    passed, scored = (sum(n) for n in zip(*(t.counts for t in verdict.tests), strict=True))
    tests = f"{len(verdict.tests)} test{'s' if len(verdict.tests) != 1 else ''}"
    counts = f"{passed} of {scored} attempts passed" + (f", {attempts - scored} missing" if attempts > scored else "")
    if verdict.standing == "recorded":
        told = f"RECORDED  {verdict.run} is the baseline {settings.baseline!r} now: {tests}, {counts}"
        return [(told, "green"), ("later sessions are compared with it; record a new one with --ethogram-update", "")]
    if verdict.standing == "replayed":
        failed = sum(r.failed for r in verdict.reports)
        ended = f"{failed} of {tests} failed" if failed else "no deviation"
        told = f"REPLAYED  {verdict.baseline}: {tests}, {attempts} attempts answered from the record; {ended}"
        return [(told, "red" if failed else "green"), ("a verdict on pass rates needs --ethogram-live", "")]
    if verdict.judged is None:
        return [(f"UNDECIDED  {verdict.run}: {counts}; {verdict.problem}", "yellow")]
    return [*_judged_lines(verdict, counts)]


def _judged_lines(verdict: SessionVerdict, counts: str) -> list[tuple[str, str]]:
    judged = verdict.judged
    assert judged is not None
    gate = judged.gate
    lines = [(f"{gate.verdict.upper()}  {verdict.baseline} → {verdict.run}: {counts}", COLOURS[gate.verdict])]
    lines.append((gate.evidence.why, ""))
    value, low, high = gate.difference.value, gate.difference.low, gate.difference.high
    if value is not None and low is not None and high is not None:
        lines.append((f"pass rate: difference {value:+.3f} [{low:+.3f}, {high:+.3f}], margin {gate.margin:g}", ""))
    for task in gate.tasks[:SHOWN]:
        lines.append((f"{'moved' if task.moved else 'got worse'}: {task.task}: {sentence(task)}", ""))
    few = min((c.attempts for c in judged.tasks), default=0)
    if few < judged.least:
        lines.append((f"no single test can fail by itself below {judged.least} attempts on both sides", ""))
    if gate.verdict == "undecided":
        lines.append((f"to decide: {needed(gate)}", ""))
    lines += [(f"note: {warning}", "") for warning in gate.warnings]
    return lines
