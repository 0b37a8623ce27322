"""The examples of the reference of Python run, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAYS = (
    "6 of 6 succeeded",
    "['stock', 'stock']",
    "13 of 32 attempts failed. Main cause: ",
    "undecided no drop is established",
    "no run named",
)


def test_the_examples_of_the_reference_run(tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "scripts" / "api_examples.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for words in SAYS:
        assert words in done.stdout
    assert {p.name for p in tmp_path.iterdir()} >= {"monday.json", "friday.html", "sales.csv"}


def test_every_name_has_a_place_in_the_reference():
    import ethogram as eth

    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    for name in set(eth.__all__) - {"__version__"}:
        assert f"### eth.{name}\n" in page
