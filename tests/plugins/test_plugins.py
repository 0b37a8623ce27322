"""The shared door: entry points of real packages are found, checked, and a bad one is one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadInput, NotFound
from ethogram.plugins import new_problems, plugged

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
    assert str(found.missing("bad", ["good"])) == sentence
    assert isinstance(found.missing("goof", ["good"]), NotFound)
    assert new_problems() == [sentence]
    assert new_problems() == []


def test_names_are_had_once(install) -> None:
    install("numbers_a", "X = 0.5\n", f"[{GROUP}]\ncost = numbers_a:X\nboth = numbers_a:X\nmine = numbers_a:X\n")
    install("numbers_b", "X = 0.5\n", f"[{GROUP}]\nboth = numbers_b:X\n")
    found = plugged(GROUP, number, taken=["cost"])
    assert list(found.values()) == ["mine"]
    assert [sentence for _, sentence in found.broken] == [
        "the metric 'both' of numbers_a is refused: numbers_b has a metric of that name too; rename one of them",
        "the metric 'both' of numbers_b is refused: numbers_a has a metric of that name too; rename one of them",
        "the metric 'cost' of numbers_a is refused: Ethogram has a metric of that name too; rename one of them",
    ]


def test_a_package_installed_later_is_seen(install, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugged(GROUP, number).values() == {}
    install("numbers_a", "HALF = 0.5\n", f"[{GROUP}]\nhalf = numbers_a:HALF\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugged(GROUP, number).values() == {"half": 0.5}
