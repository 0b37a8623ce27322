"""Secrets of every kind that providers publish, open and as machines write them: none can be read afterwards.

`pytest -s` prints how many of each kind are left in each disguise.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from ethogram.store.redact import Redactor


def _planted_set() -> ModuleType:
    """Load a neighbour by its path: tests are no package."""
    spec = importlib.util.spec_from_file_location("planted_set", Path(__file__).with_name("planted_set.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MADE: Any = _planted_set()
REDACTOR = Redactor(b"a key for tests")
EACH = 3


@pytest.mark.parametrize("disguise", list(MADE.DISGUISES))
def test_no_planted_secret_can_be_read_afterwards(disguise: str) -> None:
    left: Counter[str] = Counter()
    for kind in MADE.KINDS:
        for number in range(EACH):
            secret, text = MADE.planted(Random(f"{kind} {disguise} {number}"), kind, disguise)
            assert MADE.readable(secret, disguise, text)  # one who knows the disguise reads it
            left[kind] += MADE.readable(secret, disguise, REDACTOR.redact(text).text)
    print(f"\n{disguise}: {left.total()} of {EACH * len(MADE.KINDS)} left", dict(+left))
    assert len(MADE.KINDS) >= 60
    assert left.total() <= (0 if disguise == "open" else 0.05 * EACH * len(MADE.KINDS))


def test_encoded_words_without_a_secret_stay() -> None:
    rng = Random(2)
    for disguise in MADE.DISGUISES.values():
        text = disguise.on("total 24\ndrwxr-xr-x 2 ann staff 64 Jan 1 10:00 notes and the next line of a listing", rng)
        assert REDACTOR.redact(text).text == text


def test_packed_bytes_that_never_end_take_no_memory() -> None:
    import base64
    import gzip

    bomb = base64.b64encode(gzip.compress(b"\0" * (64 << 20))).decode()
    assert REDACTOR.redact(bomb).text == bomb
    broken = bomb[: len(bomb) // 2]
    assert REDACTOR.redact(broken).text == broken
