"""A gate's verdict for continuous integration: JUnit, GitHub annotations, Markdown."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from ethogram.display.money import dollars
from ethogram.display.shorten import shortened, shortened_list
from ethogram.estimate import Estimate
from ethogram.questions.compare.layer_words import change_lines
from ethogram.questions.compare.moved_tasks import MovedTask
from ethogram.questions.compare.moved_words import (
    SHOWN,
    attempt_words,
    first_difference,
    heading,
    passes_text,
    reason,
    sentence,
)
from ethogram.traces import short_id

from .confirmation import Confirmation
from .results import GateResult

MOST_WORDS = 600
"""Foreign words in a cell are cut here, so that the whole fits into a comment (GitHub takes 65,536 characters)."""
_MARK = {"pass": "✅", "regression": "❌", "undecided": "❔"}


def junit(result: GateResult) -> str:
    """A JUnit document: the gate as a test, and one for every task that moved or rests.

    A regression is a failure, an undecided gate an error: neither may turn green by itself.
    """
    cases = [_gate_case(result)]
    cases += [_task_case(result, t) for t in result.tasks]
    for rest in result.quarantined:
        case = ET.Element("testcase", classname="ethogram.task", name=_clean(rest.task))
        if not rest.expired:
            ET.SubElement(case, "skipped", message=_clean(f"in quarantine until {rest.until}: {rest.reason}"))
        cases.append(case)
    counts = {kind: sum(c.find(kind) is not None for c in cases) for kind in ("failure", "error", "skipped")}
    suite = ET.Element(
        "testsuite",
        name=_clean(f"ethogram gate {result.base_run} {result.candidate_run}"),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
    )
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def github_lines(result: GateResult) -> list[str]:
    """GitHub workflow commands: the verdict, the tasks that moved, the warnings."""
    level = {"pass": "notice", "regression": "error", "undecided": "warning"}[result.verdict]
    lines = [_command(level, f"ethogram gate: {result.verdict}", f"{result.evidence.why}. {_difference(result)}")]
    lines += [_command("warning", _title(t), sentence(t)) for t in result.tasks[:SHOWN]]
    if len(result.tasks) > SHOWN:
        lines.append(_command("warning", "ethogram gate", f"{len(result.tasks) - SHOWN} more tasks are in the JSON"))
    lines += [_command("warning", "ethogram gate", w) for w in result.warnings]
    return lines


def markdown(result: GateResult) -> str:
    """A comment for a pull request, and the step summary."""
    mark = _MARK[result.verdict]
    lines = [
        f"### {mark} Ethogram gate: {result.verdict}",
        "",
        f"{_code(result.base_run)} → {_code(result.candidate_run)}, {_cell(result.evidence.why)}.",
        "",
        "| | |",
        "|---|---|",
        f"| {result.settings.metric}, candidate − base | {_cell(_difference(result))} |",
        f"| margin, alpha, power | {result.margin:.3g}, {result.settings.alpha:g}, {result.settings.power:g} |",
        f"| looks | {len(result.evidence.looks)} of {result.evidence.planned_looks} |",
        f"| baseline variation | {_cell(_floor(result))} |",
        f"| missing | {_cell(_missing(result))} |",
    ]
    if result.verdict == "undecided":
        lines.append(f"| to decide | {_cell(needed(result))} |")
    lines += _task_table(result.tasks)
    if result.layers is not None and result.layers.moved and (told := change_lines(result.layers)):
        lines += ["", f"{_cell('L' + told[0][1:])}."]
    for again in result.confirmations[:SHOWN]:
        word = confirmed(again)
        lines += [
            "",
            f"Task {_code(again.task)} was attempted {again.attempts} times more: {word} ({again.again:.2f}).",
        ]
    resting = [q for q in result.quarantined if not q.expired]
    if resting:
        named = shortened_list([f"{_code(q.task)} until {q.until}" for q in resting], SHOWN)
        lines += ["", f"In quarantine, not counted: {named}."]
    expired = [q for q in result.quarantined if q.expired]
    if expired:
        lines += ["", f"Quarantine over, counted again: {shortened_list([_code(q.task) for q in expired], SHOWN)}."]
    lines += [f"\n> {_cell(w)}" for w in result.warnings[:SHOWN]]
    return "\n".join(lines) + "\n"


def confirmed(again: Confirmation) -> str:
    """What fresh attempts say of a task, in words."""
    if not again.confirmed:
        return "not confirmed"
    return "confirmed, and allowed" if again.allowed else "confirmed"


def needed(result: GateResult) -> str:
    """What it takes to decide, on one line."""
    cells = needed_cells(result)
    if not cells:
        return result.needed.why or "unknown"
    line = ", ".join(f"{name} {value}" for name, value in cells.items())
    return line + (f" ({result.needed.why})" if result.needed.why else "")


def needed_cells(result: GateResult) -> dict[str, str]:
    """What it takes to decide, by name; empty where it is not known."""
    need = result.needed
    if need.runs is None:
        return {}
    cells = {"attempts of both versions" if result.settings.fresh else "candidate attempts": f"at most {need.runs}"}
    if need.next_look_runs:
        cells["until next look"] = str(need.next_look_runs)
    if need.baseline_runs:
        cells["baseline attempts"] = str(need.baseline_runs)
    return cells | {"cost": "unknown" if need.cost_usd is None else dollars(need.cost_usd)}


def _gate_case(result: GateResult) -> ET.Element:
    case = ET.Element(
        "testcase", classname="ethogram.gate", name=_clean(f"{result.settings.metric} within {result.margin:.3g}")
    )
    told = _clean(f"{result.evidence.why}. {_difference(result)}")
    if result.verdict == "regression":
        ET.SubElement(case, "failure", message=told).text = _clean(markdown(result))
    elif result.verdict == "undecided":
        ET.SubElement(case, "error", message=told).text = _clean(f"to decide: {needed(result)}")
    ET.SubElement(case, "system-out").text = told
    return case


def _task_table(tasks: list[MovedTask]) -> list[str]:
    """The tasks that moved as a Markdown table, or nothing."""
    if not tasks:
        return []
    lines = ["", heading(tasks).capitalize() + ":", ""]
    bad, good = attempt_words(tasks)
    lines += [f"| task | base | candidate | {bad} | {good} | reason | first step that differs |", "|---" * 7 + "|"]
    for task in tasks[:SHOWN]:
        passing = task.step.passing_trace if task.step else None
        traces = [short_id(x) if x else "" for x in (task.trace, passing)]
        cells = (
            task.task,
            passes_text(task.base),
            passes_text(task.candidate),
            *traces,
            reason(task),
            first_difference(task.step, good),
        )
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return [*lines, "", f"{len(tasks) - SHOWN} more tasks are in the JSON."] if len(tasks) > SHOWN else lines


def _title(task: MovedTask) -> str:
    return f"task {task.task} {'moved' if task.moved else 'got worse'}"


def _task_case(result: GateResult, task: MovedTask) -> ET.Element:
    """A task that moved is information, not the verdict: it fails only where the gate does."""
    case = ET.Element("testcase", classname="ethogram.task", name=_clean(task.task))
    told = _clean(sentence(task))
    allowed = any(c.allowed for c in result.confirmations if c.task == task.task)
    if result.verdict == "regression" and task.worse and task.moved and not allowed:
        ET.SubElement(case, "failure", message=told)
    else:
        ET.SubElement(case, "system-out").text = told
    return case


def _difference(result: GateResult) -> str:
    found: Estimate = result.difference
    if found.value is None:
        return f"difference unknown ({found.why})"
    if found.low is None or found.high is None:
        return f"difference {found.value:+.3g}, no interval ({found.why})"
    return f"difference {found.value:+.3g} [{found.low:+.3g}, {found.high:+.3g}]"


def _floor(result: GateResult) -> str:
    floor = result.evidence.noise_floor
    if floor.swing is None:
        return floor.why or "not measured"
    return variation(floor.swing, floor.passes, floor.sessions)


def variation(swing: float, repeats: float, sessions: int) -> str:
    """How far the unchanged baseline varies by itself, in words."""
    counts = [f"{n:.3g} {noun}{'' if n == 1 else 's'}" for n, noun in ((repeats, "repeat"), (sessions, "session"))]
    return f"one attempt at every task varies by ±{swing:.3g} (1 sd, {', '.join(counts)})"


def _missing(result: GateResult) -> str:
    parts = []
    for side, gone in (("base", result.evidence.missing_base), ("candidate", result.evidence.missing_candidate)):
        if gone:
            parts.append(f"{side}: " + ", ".join(f"{k} {v}" for k, v in gone.items()))
    if result.evidence.bounds is not None and parts:
        parts.append(f"difference between {result.evidence.bounds[0]:+.3f} and {result.evidence.bounds[1]:+.3f}")
    return "; ".join(parts) or "nothing"


def _short(text: str) -> str:
    flat = " ".join(_clean(text).split())
    return shortened(flat, MOST_WORDS)


def _cell(text: str) -> str:
    """Foreign words in a Markdown table: no cell ends early, nothing becomes markup."""
    flat = _short(text)
    for sign in ("\\", "|", "`", "<", "*", "["):
        flat = flat.replace(sign, "\\" + sign)
    return flat


def _code(text: str) -> str:
    """Foreign words as code outside tables: the fence is longer than any run of backticks inside."""
    flat = _short(text)
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{flat}{pad}{fence}" if flat else "(no name)"


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escape(title, property_=True)}::{_escape(message)}"


def _escape(text: str, *, property_: bool = False) -> str:
    """GitHub's own escapes: a foreign name must not start a command of its own."""
    flat = _clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return flat.replace(":", "%3A").replace(",", "%2C") if property_ else flat


def _clean(text: str) -> str:
    """Without the control characters that XML and terminals cannot bear."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
