"""Which column of a table of results is the task, the score, the cost …: as the user says, else by name and content.

`--columns task=case,score=acc/100` names columns; `/N` divides (percent, milliseconds), and `agent=` with nothing
behind it means that there is none. What is not said is guessed; the line that was used is always shown.
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ethogram.errors import BadUsage, Unreadable
from ethogram.traces import Missing, Outcome, Scored, cut_whole

from .parse import as_float
from .rows import RowSample, TableRow
from .verdicts import FAIL, PASS, UNSCORED

NAMES: dict[str, tuple[str, ...]] = {
    "task": (
        *("task", "task_id", "task_name", "test", "test_id", "test_name", "test_case", "case", "case_id", "case_name"),
        *("instance_id", "question_id", "problem_id", "sample_id", "example_id", "item_id", "item", "name"),
        *("question", "problem", "prompt", "input", "id"),
    ),
    "score": (
        *("score", "success", "passed", "pass", "is_correct", "correct", "resolved", "reward", "verdict", "outcome"),
        *("result", "accuracy", "acc", "exact_match", "grade", "status", "label"),
    ),
    "attempt": ("attempt", "trial", "repeat", "repetition", "epoch", "iteration", "replicate", "run_index", "k"),
    "agent": ("agent", "agent_name", "system", "variant", "solver", "candidate", "model", "model_name"),
    "condition": ("condition", "perturbation", "treatment"),
    "model": ("model", "model_name", "model_id", "llm"),
    "cost": ("cost_usd", "cost", "total_cost", "usd", "price", "price_usd", "dollars"),
    "seconds": ("seconds", "duration", "duration_s", "latency", "latency_s", "elapsed", "runtime", "execution_time"),
    "tokens": ("tokens", "total_tokens", "num_tokens"),
    "input_tokens": ("input_tokens", "prompt_tokens", "tokens_in"),
    "output_tokens": ("output_tokens", "completion_tokens", "tokens_out"),
    "start": ("start_time", "started_at", "start"),
    "seed": ("seed",),
    "answer": ("answer", "output", "response", "prediction", "completion"),
    "rater": ("rater", "rater_name", "rater_id", "annotator", "annotator_name", "annotator_id", "reviewer"),
}
"""The roles of columns, and the names by which each is guessed, the surest first."""
_MILLISECONDS = ("latency_ms", "duration_ms", "time_ms", "elapsed_ms", "runtime_ms")
_DIVIDED = {"score", "cost", "seconds"}
_UNREADABLE = 0.5
"""The share of cells that a guessed column of scores may have without a score in them."""


class OutcomeColumn(NamedTuple):
    """A column by its name, what its numbers are divided by, and whether they are kept whatever their scale."""

    name: str
    divisor: float = 1.0
    as_it_is: bool = False

    def __str__(self) -> str:
        return self.name if self.divisor == 1 and not self.as_it_is else f"{self.name}/{self.divisor:g}"

    def number(self, row: TableRow) -> float | None:
        """The number in this column of a row, divided; None if there is none."""
        value = row.get(self.name)
        if isinstance(value, str):
            value = value.lstrip("$€£").replace(",", "") if not value[-1:].isalpha() else value
        found = as_float(value)
        return None if found is None else found / self.divisor


class OutcomeColumns(NamedTuple):
    """Columns by role, and what must be told of how they are read."""

    roles: dict[str, OutcomeColumn]
    notes: list[str]

    def line(self) -> str:
        """The option that says the same."""
        said = ",".join(_quoted(f"{role}={column}") for role, column in self.roles.items())
        return f"--columns {said}" if re.fullmatch(r"[\w=,./+:@%-]+", said) else f"--columns '{said}'"


def parse_columns(spec: str) -> dict[str, str]:
    """Roles and columns of `task=case,score=acc/100`; raises `BadUsage` for a role that does not exist."""
    found: dict[str, str] = {}
    for part in next(csv.reader([spec]), []):
        role, sign, name = part.strip().partition("=")
        if not sign or role not in NAMES:
            raise BadUsage(f"--columns {part!r} is not ROLE=COLUMN; roles are {', '.join(NAMES)}")
        found[role] = name.strip()
    return found


def find_columns(sample: RowSample, said: Mapping[str, str]) -> OutcomeColumns:
    """The columns of a table; raises `Unreadable` where there is no task or no score."""
    roles = _roles(sample, said)
    if why := _lacking(sample, roles):
        raise Unreadable(why)
    notes: list[str] = []
    if "score" not in said or "/" not in said["score"]:
        roles["score"] = _scaled(roles["score"], sample, notes)
    return OutcomeColumns(roles, notes)


def why_no_table(sample: RowSample) -> str:
    """What a table of results needs and this one lacks, in one sentence; empty if it lacks nothing."""
    return _lacking(sample, _roles(sample, {}))


def is_header(names: Sequence[str]) -> bool:
    """Whether one of these names is that of a task or a score, so that a line of them is a header and not prose."""
    return any(_plain(name) in NAMES[role] for name in names for role in ("task", "score"))


def _roles(sample: RowSample, said: Mapping[str, str]) -> dict[str, OutcomeColumn]:
    roles: dict[str, OutcomeColumn] = {}
    for role in NAMES:
        column = _said(role, said[role], sample) if role in said else _guess(role, sample, roles)
        if column is not None:
            roles[role] = column
    return roles


def _lacking(sample: RowSample, roles: Mapping[str, OutcomeColumn]) -> str:
    lacking = [role for role in ("task", "score") if role not in roles]
    if not sample.rows:
        return "the table has a header and no rows"
    if not lacking:
        return ""
    there = textwrap.shorten(", ".join(sample.names), 300, placeholder=" …")
    example = ",".join(f"{role}=COLUMN" for role in lacking)
    return (
        f"the table has no column that is surely the {' or the '.join(lacking)}; it has {there}: "
        f"name it with --columns {example}"
    )


def outcome_in(column: OutcomeColumn, row: TableRow) -> Outcome:
    """The outcome that a row states; raises `Unreadable` for what is neither a verdict nor a number of its scale."""
    found = _outcome_in(column, row.get(column.name))
    if isinstance(found, Scored) and not column.as_it_is and not 0 <= found.value <= 1:
        scale = "" if column.divisor > 1 else f"; another scale: --columns score={column.name}/N"
        raise Unreadable(f"{column.name} is {row[column.name]}, outside of 0 to {column.divisor:g}{scale}")
    return found


def _outcome_in(column: OutcomeColumn, value: object) -> Outcome:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in PASS or word in FAIL:
            return Scored(float(word in PASS), column.name)
        if word in UNSCORED:
            return Missing("unscored", f"{column.name}: {value}")
        if word.endswith("%") and (number := as_float(word[:-1])) is not None:
            return Scored(number / 100, column.name)
    if value is None or value == "" or value != value:
        return Missing("unscored", f"{column.name} is empty")
    if isinstance(value, bool):
        return Scored(float(value), column.name)
    found = as_float(value)
    if found is None:
        raise Unreadable(
            f"{column.name} is {cut_whole(str(value), 60)!r}, neither a number nor a verdict such as pass or fail"
        )
    return Scored(found / column.divisor, column.name)


def _said(role: str, text: str, sample: RowSample) -> OutcomeColumn | None:
    """The column that the user names; nothing where there is to be none."""
    if not text:
        return None
    if text in sample.names:
        return OutcomeColumn(text)
    name, slash, divisor = text.rpartition("/")
    number = as_float(divisor) if slash else None
    if number and name in sample.names and role in _DIVIDED:
        return OutcomeColumn(name, number, as_it_is=number == 1)
    raise BadUsage(f"--columns {role}={text}: the table has no such column; it has {', '.join(sample.names[:30])}")


def _guess(role: str, sample: RowSample, roles: Mapping[str, OutcomeColumn]) -> OutcomeColumn | None:
    by_name = {_plain(name): name for name in reversed(sample.names)}
    taken = {column.name for column in roles.values()} if role not in ("model", "agent") else set()
    wanted = [(name, 1.0) for name in NAMES[role]]
    if role == "seconds":
        wanted += [(name, 1000.0) for name in _MILLISECONDS]
    for name, divisor in wanted:
        found = by_name.get(name)
        if found is not None and found not in taken and _fits(role, found, sample.rows):
            return OutcomeColumn(found, divisor)
    if role == "score":  # by content: the only column of words such as pass and fail
        verdicts = [n for n in sample.names if n not in taken and _all_verdicts(n, sample.rows)]
        return OutcomeColumn(verdicts[0]) if len(verdicts) == 1 else None
    return None


def _plain(name: str) -> str:
    """`testName`, `Test Name` and `test-name` as `test_name`."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")


def _fits(role: str, name: str, rows: Sequence[TableRow]) -> bool:
    """Whether the first rows hold what a role needs."""
    values = [v for row in rows if (v := row.get(name)) is not None]
    if role == "task":
        return sum(not isinstance(v, list | dict | bool) for v in values) > len(rows) / 2
    if role == "score":
        bad = sum(not _is_score(name, row) for row in rows)
        return bool(values) and bad <= _UNREADABLE * len(rows)
    if role in ("agent", "condition", "model", "answer", "start", "rater"):
        return bool(values)
    return bool(values) and all(as_float(v) is not None for v in values)


def _is_score(name: str, row: TableRow) -> bool:
    try:
        outcome_in(OutcomeColumn(name, as_it_is=True), row)
    except Unreadable:
        return False
    return True


def _all_verdicts(name: str, rows: Sequence[TableRow]) -> bool:
    """Whether a column says of every attempt how it ended; `true` and `yes` may answer any question."""
    words = (PASS | FAIL) - {"true", "false", "yes", "no", "c", "i"}
    values = [v.strip().lower() if isinstance(v := row.get(name), str) else None for row in rows]
    return not words.isdisjoint(values) and all(v in words or v in UNSCORED for v in values)


def _scaled(column: OutcomeColumn, sample: RowSample, notes: list[str]) -> OutcomeColumn:
    """The column with its scale: numbers from 0 to 100 are percent; another scale has to be said."""
    name = column.name
    given = [row.get(name) for row in sample.rows]
    values = [v for v in map(as_float, given) if v is not None]
    if not values or (min(values) >= 0 and max(values) <= 1):
        notes.append(f"{name} is read as {_spelling(given)}")
        return column
    low, high = f"{min(values):g}", f"{max(values):g}"
    if min(values) >= 0 and 10 < max(values) <= 100:
        notes.append(f"{name} goes from {low} to {high} and is read as percent; another scale: score={name}/N")
        return OutcomeColumn(name, 100.0)
    raise Unreadable(
        f"{name} goes from {low} to {high}, which is neither 0 to 1 nor percent; say what a full score is with "
        f"--columns score={name}/N, or keep the numbers as they are with score={name}/1"
    )


def _spelling(given: Sequence[object]) -> str:
    """In which spellings scores are given; numbers here are from 0 to 1."""
    words = [v.strip().lower() for v in given if isinstance(v, str)]
    verdicts = any(isinstance(v, bool) for v in given) or any(w in PASS or w in FAIL for w in words)
    found = ["pass or fail"] if verdicts else []
    found += ["percent"] if any(w.endswith("%") for w in words) else []
    found += ["a score from 0 to 1"] if any(not isinstance(v, bool) and as_float(v) is not None for v in given) else []
    return " or ".join(found) or "missing in every row"


def _quoted(part: str) -> str:
    return f'"{part}"' if "," in part else part
