"""Ways to score a run that has no scores, from what it holds: commands that work as printed."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable
from itertools import count, islice
from pathlib import Path

from ethogram.capture.verdicts import outcome_of
from ethogram.findings.rubric import is_rubric_label
from ethogram.findings.verifier_messages import less_is_better
from ethogram.measures.outcomes import UNJUDGED
from ethogram.reading.suite_versions import own_suite
from ethogram.store import Entry, Home, Run, open_home
from ethogram.traces import Missing, Param

MOST = 3
_TELLS = re.compile(r"succe|resolv|solved|pass|score|reward|correct|outcome|verdict|grade|result", re.IGNORECASE)
"""Meta values are taken for verdicts only where their name says so: a cost may lie between 0 and 1 too."""
ENOUGH = 200
"""The number of episodes that are looked at for meta values that could be outcomes."""


def ways_to_score(run: Run, home: Home) -> list[str]:
    """Commands, the surest first: the run's own suite, labels and meta values that came with the log, and a check."""
    command = f"ethogram score {shlex.quote(run.name)}{home_option(home)}"
    suite = own_suite(run)
    ways = [f"{command} --suite {shlex.quote(suite)}"] if suite is not None and Path(suite).exists() else []
    ways += [f"{command} --outcome-from {shlex.quote(f'label:{name}')}" for name in _label_names(run)[:MOST]]
    ways += [f"{command} --outcome-from {shlex.quote(f'meta:{key}')}" for key in _keys(run.entries)[:MOST]]
    return [*ways, f"{command} --check 'regex=(?i)done|fixed|complete'"]


def way_by_hand(run: Run, home: Home) -> str:
    """The command that writes a sheet of the traces, to be filled in."""
    return f"ethogram label {shlex.quote(run.name)}{home_option(home)} --label outcome -o {_sheet(run)}"


def _sheet(run: Run) -> str:
    """A file that is not there yet, so that nobody's labels are lost."""
    names = (f"{run.name}-outcomes{'' if i == 1 else f'-{i}'}.csv" for i in count(1))
    return shlex.quote(next(name for name in names if not Path(name).exists()))


def _label_names(run: Run) -> list[str]:
    """Labels of whole traces that read like verdicts wherever they stand, the most frequent first.

    One value above 1 tells of another scale, such as 1 to 5, on which every value would count as a success.
    """
    times: Counter[str] = Counter()
    odd: set[str] = set()
    for label in run.labels():
        if label.span_id is not None or less_is_better(label.name) or is_rubric_label(label.name):
            continue
        if _is_verdict(label.value):
            times[label.name] += 1
        elif isinstance(label.value, int | float):
            odd.add(label.name)
    return [name for name, _ in times.most_common() if name not in odd]


def _keys(entries: Iterable[Entry]) -> list[str]:
    """Meta values that are called and read like verdicts wherever they stand, the most frequent first."""
    scorable = (e for e in entries if isinstance(e.head.outcome, Missing) and e.head.outcome.reason in UNJUDGED)
    times: Counter[str] = Counter()
    odd: set[str] = set()
    for entry in islice(scorable, ENOUGH):
        for key, value in entry.head.meta.items():
            times[key] += 1
            if not _is_verdict(value):
                odd.add(key)
    return [key for key, _ in times.most_common() if key not in odd and _TELLS.search(key)]


def _is_verdict(value: Param) -> bool:
    """A word like pass or fail, true or false, or a number from 0 to 1."""
    found = outcome_of(str(value), "")
    return found is not None and not isinstance(found, Missing) and 0 <= found.value <= 1


def home_option(home: Home) -> str:
    """Where the run lies, unless it is where everybody looks."""
    address = home.files.address
    return "" if address == open_home().files.address else f" --home {shlex.quote(address)}"
