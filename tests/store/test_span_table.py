"""A trace as a table of which only what is asked for is read says the same as its spans."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ethogram.store import Home, Run, span_table
from ethogram.store.segment import spans_of

READS_A_RUN = """
import sys
from ethogram.viewer.library import Library
from ethogram.viewer.models.run import RunQuery, run_view
from ethogram.viewer.models.attempts import AttemptsQuery, attempts_view
from ethogram.store import open_home
library = Library(open_home(sys.argv[1]))
assert run_view(library, RunQuery(run="r")).overview.episodes == 1
assert attempts_view(library, AttemptsQuery(run="r")).attempts == 1
print("pandas" in sys.modules)
"""


@pytest.fixture
def run(home: Home, plain: Any, write_trace: Any) -> Run:
    written = home.create("r", kind="import")
    with written.writer(plain) as writer:
        write_trace(writer, "a")
    return home.resolve("r")


@pytest.mark.parametrize("small", [0, 5_000])
def test_columns_and_rows_are_those_of_the_spans(run: Run, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_table, "SMALL", small)
    (entry,) = run.entries
    spans = list(run.spans(entry))
    table = run.span_table(entry)
    assert table.num_rows == len(spans) > 1
    assert table.column("span_id").to_pylist() == [s.span_id for s in spans]
    assert table.column("output").to_pylist() == [list(s.output) for s in spans]
    assert table.known("error").tolist() == [s.error is not None for s in spans]
    backwards = np.arange(len(spans))[::-1]
    assert spans_of(table.take(backwards)) == spans[::-1]
    assert spans_of(table.take([])) == []


def test_a_page_of_a_run_is_made_without_pandas(run: Run, home: Home) -> None:
    """Arrow imports pandas where it converts by itself, which takes longer than everything else together."""
    told = subprocess.run([sys.executable, "-c", READS_A_RUN, home.files.address], capture_output=True, text=True)
    assert (told.stdout.strip(), told.returncode) == ("False", 0), told.stderr
