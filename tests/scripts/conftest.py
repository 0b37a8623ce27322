"""The scripts of a developer, as modules."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def script(name: str) -> ModuleType:
    """A module of `scripts/`, where they import each other by name."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="session")
def stamps() -> ModuleType:
    """`scripts/stamps.py`, which says whether a guide page must run again."""
    return script("stamps")


@pytest.fixture(scope="session")
def quick() -> ModuleType:
    """`scripts/quick.py`, which chooses the tests nearest to a change."""
    return script("quick")
