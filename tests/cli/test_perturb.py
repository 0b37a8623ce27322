"""`ethogram perturb`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.perturbations.catalogue import operators_for

Call = Callable[..., Any]

AGENT = """
def solve(task, episode):
    try:
        return episode.tools["total"](name="sales.csv", column="price")
    except (LookupError, ValueError):
        episode.tools["columns"](name="sales.csv")
        return "unknown"


def count(task, episode):
    with open("/".join(__file__.split("/")[:-1]) + "/calls", "a") as file:
        file.write("x")
    return "24"


count.meters = ("tokens", "usd")
"""
OPERATORS = [o.name for o in operators_for("csv")]
SUM = ("--question", "What is the sum of the prices?", "--expected", "24", "--score", "numeric")


@pytest.fixture
def ask(env: dict[str, str], call: Call) -> Call:
    Path("sales.csv").write_text("item,price,stock\napple,3,12\nbread,4,0\nmilk,2,7\ncheese,9,1\ntea,6,30\n")
    Path("act.py").write_text(AGENT)

    def asking(*more: str | Path, agent: str = "act.py:solve") -> Any:
        return call("perturb", "--agent", agent, "--file", "sales.csv", *SUM, *more)

    return asking


def test_pairs_aggregates_and_shares_are_shown(ask: Call) -> None:
    said = ask("-k", "2", "--run", "x")
    assert said.code == 0, said
    lines = said.out.splitlines()
    pairs = 2 * len(OPERATORS)
    assert lines[0].startswith(f"x  {pairs} of {pairs} pairs, agent act.py:solve")
    assert lines[1].startswith("noise floor: clean attempts are 0.000 apart on average")
    assert sum(line.startswith("column_swap") for line in lines) == 3  # two pairs and their sum
    assert any(line.startswith("all ") for line in lines)
    assert any(line.startswith("no observable effect ") for line in lines)
    assert "1 → 0" in said.out
    assert "WARNING" not in said.out


def test_many_pairs_are_folded(ask: Call) -> None:
    said = ask("-k", "2", "--limit", "3")
    assert f"… and {2 * len(OPERATORS) - 3} more pairs; --limit 0 shows all" in said.out
    assert sum(" → " in line for line in said.out.splitlines()) == 3
    assert "… and" not in ask("--results", "latest", "--limit", "100").out


def test_json_is_one_document_and_results_say_the_same(ask: Call, document: Call) -> None:
    said = ask("--run", "x", "--json", "--operators", "row_duplicate,tool_error")
    assert said.code == 0, said
    found = json.loads(said.out)
    assert found["schema_version"] == 1
    assert [p["operator"] for p in found["pairs"]] == ["row_duplicate", "tool_error"]
    assert document("perturb", "--results", "x") == found


def test_csv_needs_no_pandas(ask: Call, shell: Call) -> None:
    assert ask("--run", "x", "--out", "pairs.csv").code == 0
    rows = list(csv.DictReader(Path("pairs.csv").read_text().splitlines()))
    assert [r["operator"] for r in rows] == OPERATORS
    assert {"operator", "d_norm", "within_noise_floor"} <= set(rows[0])
    Path("hidden").mkdir()
    Path("hidden/pandas.py").write_text("raise ImportError('there is no pandas here')\n")
    done = shell("ethogram perturb --results x -o again.csv", PYTHONPATH="hidden")
    assert done.code == 0, done
    assert Path("again.csv").read_text() == Path("pairs.csv").read_text()
    said = ask("--run", "x", "--out", "no/such/folder.csv")
    assert (said.code, said.err.count("\n")) == (64, 1)


def test_a_dry_run_calls_nothing(ask: Call, document: Call) -> None:
    said = ask("--dry-run", "-k", "3", "--max-usd", "2", agent="act.py:count")
    assert said.code == 0, said
    episodes = 5 + 3 * (1 + len(OPERATORS))  # the noise floor, then three attempts of the clean task and of each change
    assert said.out.splitlines()[-1] == f"{episodes} episodes; at most $2.00; nothing was called"
    assert "duplicated" in said.out
    assert not Path("calls").exists()
    about = ("--agent", "act.py:count", "--file", "sales.csv", *SUM)
    planned = document("perturb", *about, "--dry-run")
    assert planned["episodes"] == 5 + 1 + len(OPERATORS)
    assert [c["operator"] for c in planned["changes"]] == OPERATORS
    assert not Path("calls").exists()
    assert ask("--noise-floor", "0", agent="act.py:count").code == 0
    assert len(Path("calls").read_text()) == 1 + len(OPERATORS)


def test_warnings_are_loud(ask: Call) -> None:
    assert "WARNING: the noise floor was not measured" in ask("--noise-floor", "0").out
    assert "WARNING: the noise floor rests on 1 re-run" in ask("--noise-floor", "1").out


def test_a_dose_response_is_shown(ask: Call) -> None:
    said = ask("--operators", "tool_error", "--intensities", "0.5,1", "-k", "4")
    assert said.code == 0, said
    assert any(line.startswith("tool_error  0.5 ") for line in said.out.splitlines())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--intensities", "0.5,strong"), "'strong' is not an intensity"),
        (("--intensities", "7"), "makes no sense"),
        (("--operators", "colum_swap"), "did you mean 'column_swap'"),
        (("--operators", "page_shuffle"), "changes pdf files, and the tasks have none"),
        (("--score", "sett"), "did you mean 'set'"),
        (("-k", "0"), "at least one pair"),
        (("--file", "none.csv"), "no file at 'none.csv'"),
        (("--suite", "somewhere"), "give either it or those"),
        (("--run", "a/b"), "cannot name a run"),
        (("--results", "nothing"), "no run"),
    ],
)
def test_bad_input_is_one_sentence_and_64(ask: Call, more: tuple[str, ...], words: str) -> None:
    said = ask(*more)
    assert said.code == 64, said
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_another_question_under_the_same_name_is_refused(ask: Call) -> None:
    assert ask("--run", "x", "--operators", "row_duplicate").code == 0
    said = ask("--run", "x", "--operators", "row_duplicate", "-k", "2")
    assert (said.code, "begun with another k" in said.err) == (64, True)
    assert ask("--run", "x", "--operators", "row_duplicate").code == 0


def test_an_agent_is_needed(call: Call) -> None:
    said = call("perturb", "--file", "x.csv")
    assert (said.code, "needs an agent" in said.err) == (64, True)


def test_operators_that_cannot_are_named_with_their_reason(ask: Call) -> None:
    Path("sales.csv").write_text("item,colour\nlamp,red\nchair,blue\ntable,white\n")
    said = ask("--dry-run")
    assert said.code == 0, said
    assert "not applicable to sales-csv: data_type_corrupt, unit_change: no column" in said.out
