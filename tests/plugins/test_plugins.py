"""Plug-ins: entry points of real packages are found, checked, and a bad one is one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadInput, NotFound
from ethogram.plugins import EXTENSION_POINTS, installed_plugins, new_problems, plugged

GROUP = "ethogram.metrics"


def number(loaded: Any, name: str) -> float:
    if not isinstance(loaded, float):
        raise BadInput("it is no number")
    return loaded


def test_what_a_package_adds(install) -> None:
    install("numbers_a", "HALF = 0.5\n", f"[{GROUP}]\nhalf = numbers_a:HALF\n")
    found = plugged(GROUP, number)
    assert found.values() == {"half": 0.5}
    assert [(p.name, p.package, p.place) for p in found.working] == [("half", "numbers_a", "numbers_a:HALF")]
    assert found.broken == ()
    assert new_problems() == []


@pytest.mark.parametrize(
    ("code", "value", "says"),
    [
        ("HALF = 'half'\n", "numbers_b:HALF", "cannot be loaded: it is no number"),
        (
            "import nothing_of_the_kind\n",
            "numbers_b:HALF",
            "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        ),
        ("HALF = 0.5\n", "numbers_b:HAFL", "AttributeError: module 'numbers_b' has no attribute 'HAFL'"),
        ("raise SystemExit('not\\nhere')\n", "numbers_b", "SystemExit: not here"),
        ("def (", "numbers_b", "SyntaxError: "),
    ],
)
def test_a_broken_one_takes_no_other_with_it(install, code: str, value: str, says: str) -> None:
    install("numbers_a", "HALF = 0.5\n", f"[{GROUP}]\ngood = numbers_a:HALF\n")
    install("numbers_b", code, f"[{GROUP}]\nbad = {value}\n")
    found = plugged(GROUP, number)
    assert found.values() == {"good": 0.5}
    ((name, sentence),) = found.broken
    assert name == "bad"
    assert sentence.startswith("the metric 'bad' of numbers_b cannot be loaded: ")
    assert says in sentence
    assert "\n" not in sentence
    assert isinstance(found.missing("goof", ["good"]), NotFound)
    assert new_problems() == [sentence]
    assert new_problems() == []
    found = plugged(GROUP, number)
    assert str(found.missing("bad", ["good"])) == sentence
    assert new_problems() == []  # the error has said it


def test_names_are_had_once(install) -> None:
    install(
        "numbers_a",
        "X = 0.5\n",
        f"[{GROUP}]\ncost = numbers_a:X\nboth = numbers_a:X\nmine = numbers_a:X\nother = numbers_a:X\n",
    )
    install("numbers_b", "X = 0.5\n", f"[{GROUP}]\nboth = numbers_b:X\n")
    found = plugged(GROUP, number, taken=["cost", "mine"], nouns={"mine": "operator"})
    assert list(found.values()) == ["other"]
    assert [sentence for _, sentence in found.broken] == [
        "the metric 'both' of numbers_a is refused: numbers_b has a metric of that name too; rename one of them",
        "the metric 'both' of numbers_b is refused: numbers_a has a metric of that name too; rename one of them",
        "the metric 'cost' of numbers_a is refused: Ethogram has a metric of that name too; rename one of them",
        "the metric 'mine' of numbers_a is refused: Ethogram has an operator of that name too; rename one of them",
    ]


def test_a_package_installed_later_is_seen(install, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugged(GROUP, number).values() == {}
    install("numbers_a", "HALF = 0.5\n", f"[{GROUP}]\nhalf = numbers_a:HALF\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugged(GROUP, number).values() == {"half": 0.5}


def test_all_that_is_installed(install, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "Metric(name='m', unit='s', better='less', formula='', needs=('steps',))"
    code = f"from ethogram.extend import Metric\nM = {made}\n"
    install(
        "meters", code, "[ethogram.metrics]\nm = meters:M\nrepeats = meters:M\n[ethogram.metric]\nlost = meters:M\n"
    )
    found = installed_plugins()
    assert {group: [p.name for p in plugins] for group, plugins in found.working.items()} == {GROUP: ["m"]}
    lost, other = found.broken
    assert lost == (
        "'lost' of meters is not used: 'ethogram.metric' is not an extension point; did you mean 'ethogram.metrics'?"
    )
    assert "give both one name" in other
    assert new_problems() == []
    monkeypatch.setenv("ETHOGRAM_PLUGINS", "off")
    assert installed_plugins() == ({}, ())
    assert plugged(GROUP, number).working == ()


@pytest.mark.parametrize("group", EXTENSION_POINTS)
def test_every_extension_point_says_who_looks(group: str, install) -> None:
    install("nothing", "", f"[{group}]\nbroken = nothing:NOTHING\n")
    (sentence,) = installed_plugins().broken
    assert sentence.startswith(f"the {EXTENSION_POINTS[group].noun} 'broken' of nothing cannot be loaded: ")
