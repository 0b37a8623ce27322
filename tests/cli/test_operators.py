"""`ethogram operators`: the live catalogue, what can change a file, and operators of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.perturbations.catalogue import ALL, file_operator
from ethogram.questions.experiment.operators import list_operators, load_operator, plugged_operators

MINE = '''
from ethogram.perturbations.operator import Change

class Shout:
    """A small operator."""

    name = "shout"
    kind = "text"
    formats = ("txt",)
    does = "everything is in capitals"

    def applicable(self, content, format):
        return None if content != content.upper() else "everything is in capitals already"

    def apply(self, content, format, seed, intensity=1.0):
        new = content.upper()
        return Change(new, "shouted", ("everywhere",), (content.decode(),), (new.decode(),), 1, intensity)

SHOUT = Shout()
NOTHING = 7
class Half:
    name, kind, formats, does = "half", "text", ("txt",), "half done"
'''


def told(call: Any, *args: str | Path) -> dict[str, Any]:
    said = call("operators", *args, "--json")
    assert said.code == 0, said
    assert said.out.count("\n") == 1
    found: dict[str, Any] = json.loads(said.out)
    assert found["schema_version"] == 1
    return found


def test_the_catalogue_is_the_code(call) -> None:
    found = told(call)
    assert [(o["name"], o["kind"], o["formats"]) for o in found["operators"]] == [
        (o.name, o.kind, list(o.formats)) for o in ALL
    ]
    assert all(o["does"] and o["dose"] and o["source"] == "ethogram" for o in found["operators"])
    assert found["problems"] == []


def test_people_see_a_table(call) -> None:
    said = call("operators")
    assert said.code == 0
    assert said.out.split("\n")[0].split()[:3] == ["operator", "kind", "formats"]
    assert said.out.count("null_content") == 4
    assert "the cells of two columns change places" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("options", "kind", "format"),
    [
        (("--format", "csv"), "table", "csv"),
        (("--format", "md"), "text", "md"),
        (("--format", "pdf"), "pdf", "pdf"),
        (("--format", "yaml"), "data", "yaml"),
        (("--kind", "tool"), "tool", None),
        (("--format", "prompt"), "prompt", "prompt"),
    ],
)
def test_a_part_of_it(call, options: tuple[str, ...], kind: str, format: str | None) -> None:
    expected = [o.name for o in ALL if o.kind == kind and (format is None or format in o.formats)]
    assert expected
    found = told(call, *options)["operators"]
    assert [o["name"] for o in found] == expected
    assert {o["kind"] for o in found} == {kind}


def test_a_part_that_holds_nothing(call) -> None:
    assert told(call, "--format", "csv", "--kind", "pdf")["operators"] == []


def test_which_of_them_can_change_a_file(call) -> None:
    Path("names.csv").write_text("name,town\nann,ulm\nbob,bonn\n")
    found = told(call, "names.csv")
    assert (found["file"], found["format"]) == ("names.csv", "csv")
    why = {o["name"]: o["why_not"] for o in found["operators"]}
    assert {n: w for n, w in why.items() if w} == {
        "data_type_corrupt": "no column of the table holds numbers",
        "unit_change": "no column of the table holds numbers",
    }
    assert all(o["applicable"] is (o["why_not"] is None) for o in found["operators"])
    said = call("operators", "names.csv")
    assert "on names.csv" in said.out
    assert "no column of the table holds numbers" in said.out


def test_an_operator_of_ones_own(call) -> None:
    Path("mine.py").write_text(MINE)
    Path("note.txt").write_text("hello")
    found = told(call, "note.txt", "--load", "mine.py:SHOUT")["operators"]
    assert found[-1]["name"] == "shout"
    assert found[-1]["source"] == "mine.py:SHOUT"
    assert found[-1]["applicable"] is True
    assert "mine.py:SHOUT" in call("operators", "--load", "mine.py:SHOUT", "--format", "txt").out
    shout: Any = load_operator("mine.py:SHOUT")
    change = file_operator("shout", "txt", more=[shout]).apply(b"hello", "txt", 1)
    assert (change.content, change.summary) == (b"HELLO", "shouted")
    assert type(load_operator("mine.py:Shout")).__name__ == "Shout"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--format", "docx"), "no format named 'docx'"),
        (("--kind", "tables"), "did you mean 'table'"),
        (("missing.csv",), "no file at 'missing.csv'"),
        (("odd.bin",), "no suffix that tells its format"),
        (("--load", "mine.py:NOTHING"), "it has no name, kind, formats, does, applicable, apply"),
        (("--load", "mine.py:Half"), "it has no applicable, apply"),
        (("--load", "mine.py:SHUOT"), "did you mean 'SHOUT'"),
        (("--load", "nowhere.mod:X"), "cannot import 'nowhere.mod'"),
        (("--load", "shuffle"), "no operator named 'shuffle'"),
        (("--load", "null_content"), "say for which format"),
    ],
)
def test_bad_input_is_one_sentence(call, args: tuple[str, ...], says: str) -> None:
    Path("mine.py").write_text(MINE)
    Path("odd.bin").write_bytes(b"\x00")
    said = call("operators", *args)
    assert said.code == 64
    assert said.out == ""
    assert says in said.err
    assert said.err.count("\n") == 1


def test_operators_by_name_and_format(env) -> None:
    assert load_operator("null_content", "pdf").kind == "pdf"
    assert load_operator("tool_error").kind == "tool"
    with pytest.raises(Exception, match="column_swap does not work on pdf files, but on csv, xlsx"):
        load_operator("column_swap", "pdf")


def test_installed_packages_add_operators(env, install) -> None:
    """A real distribution on the path: its entry points are found, and a broken one takes nobody with it."""
    install("shouting", MINE, "[ethogram.operators]\nshout = shouting:SHOUT\nbroken = shouting:NOTHING\n")
    found = list_operators(format="txt")
    assert [(o.name, o.source) for o in found.operators if o.source != "ethogram"] == [("shout", "shouting")]
    assert len(found.problems) == 1
    assert "'broken' of shouting cannot be loaded" in found.problems[0]
    assert load_operator("shout").does == "everything is in capitals"
    assert [p.value.name for p in plugged_operators().working] == ["shout"]
    assert [row["name"] for row in found.rows()][-1] == "shout"
