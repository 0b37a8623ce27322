"""What readers of one home share: answers are computed once, and who can do with an earlier one does not wait."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from ethogram.questions.home.overview import RunOverview, run_overview
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Run
from ethogram.viewer.library import Library
from ethogram.viewer.models.runs import RunsQuery, runs_view


def add(home: Home, folder: Path, task: int) -> None:
    talk = [{"role": "user", "content": f"say {task}"}, {"role": "assistant", "content": "yes"}]
    log = folder / f"log{task}.json"
    log.write_text(json.dumps([{"task_id": task, "trial": 0, "reward": 1.0, "info": {}, "traj": talk}]))
    import_logs(log, run="r", home=home, format="tau-bench")


def test_the_list_of_runs_does_not_wait_for_another_reader(home: Home, tmp_path: Path) -> None:
    add(home, tmp_path, 0)
    library = Library(home)
    first = runs_view(library, RunsQuery())
    assert ([row.episodes for row in first.rows], first.pending) == ([1], 0)
    add(home, tmp_path, 1)
    begun, go_on = threading.Event(), threading.Event()

    def slow(run: Run) -> RunOverview:
        begun.set()
        assert go_on.wait(30)
        return run_overview(run)

    other = threading.Thread(target=library.answer, args=("r", ("overview",), slow))
    other.start()
    assert begun.wait(30)
    library._states = (0.0, {})  # the list of runs may be half a second old
    meanwhile = runs_view(library, RunsQuery())
    assert ([row.episodes for row in meanwhile.rows], meanwhile.pending) == ([1], 1), (
        "what is known, and that it is old"
    )
    go_on.set()
    other.join(30)
    after = runs_view(library, RunsQuery())
    assert ([row.episodes for row in after.rows], after.pending) == ([2], 0)
