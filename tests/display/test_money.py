"""Dollars read the same on every screen, however small they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ethogram
from ethogram.display import money
from ethogram.display.money import dollars


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0, "$0.00"),
        (0.0000123, "$0.000012"),
        (0.004, "$0.0040"),
        (0.01, "$0.0100"),
        (1.5, "$1.50"),
        (0.5412, "$0.5412"),
        (12.345, "$12.35"),
        (1234.5, "$1,234"),
        (-0.004, "-$0.0040"),
        (float("inf"), "∞"),
    ],
)
def test_dollars(value: float | None, said: str) -> None:
    assert dollars(value) == said
    assert money.dollars is dollars


def test_nobody_else_formats_dollars() -> None:
    """A dollar sign before a formatted number is written in one module only."""
    root = Path(ethogram.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\$\{[^{}\"]*:,?\.\w+\}", path.read_text(encoding="utf-8"))
    ]
    assert sorted(set(found)) == ["display/money.py"]
