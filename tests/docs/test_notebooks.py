"""Every notebook of the examples runs in IPython, and shows tables and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "notebooks"
SHOWS = {
    "is_my_agent_reliable": ("41 of 48 scored attempts succeeded", "<b>Gate</b> regression: v2 against v1", "pass@k"),
    "why_does_it_fail": ("<b>Field</b> support", "never calls update_order", "the traces part at step"),
}


def test_every_notebook_is_looked_at():
    assert {p.stem for p in FOLDER.glob("*.ipynb")} == SHOWS.keys()


@pytest.mark.parametrize("name", SHOWS)
def test_a_notebook_runs(name, tmp_path):
    pytest.importorskip("IPython", reason="IPython runs the notebooks")
    command = [sys.executable, str(ROOT / "scripts" / "notebooks.py"), str(FOLDER / f"{name}.ipynb"), "page.html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in SHOWS[name]:
        assert words in page
    assert page.count("<table>") > 4
    assert page.count('class="marks"') + page.count('role="img"') > 5
    assert page.count("currentColor") > 5


@pytest.mark.parametrize("name", SHOWS)
def test_a_notebook_is_kept_without_output(name):
    for cell in json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
