"""The pictures of a field: what the text refuses is not drawn."""

from __future__ import annotations

import json
from pathlib import Path

from ethogram.lab import import_logs
from ethogram.lab.field.fields import field_of
from ethogram.show.part_field import field_charts
from ethogram.store import Home

DRIFT = "where failures leave the corridor, among attempts that visited each stage"
RATE = "how often attempts that visited a stage succeed"


def words(home: Home, folder: Path, attempts: int) -> list[str]:
    """The pictures of two tasks, tried so often each; every third attempt fails and searches longer."""
    log = []
    for task in range(2):
        for trial in range(attempts):
            good = trial % 3 > 0
            calls = ["search_orders"] * (1 + trial % 2 + (0 if good else 3 + trial)) + ["update_order"] * good
            talk = [{"role": "user", "content": "please"}]
            for i, name in enumerate(calls):
                asked = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
                talk.append({"role": "assistant", "content": None, "tool_calls": [asked]})
                talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": "ok"})
            log.append({"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk})
    name = f"shop{attempts}"
    (folder / f"{name}.json").write_text(json.dumps(log))
    import_logs([folder / f"{name}.json"], run=name, home=home)
    found = field_of(name, home=home, draws=99)
    thin = found.horizons[0].estimates["drift"].low is None
    assert thin == (attempts == 3)
    return [chart.words for chart in field_charts(found)]


def test_drift_is_drawn_only_where_it_is_told(home: Home, tmp_path: Path) -> None:
    few, many = words(home, tmp_path, 3), words(home, tmp_path, 15)
    assert DRIFT in many
    assert DRIFT not in few
    assert RATE in few
    assert RATE in many
