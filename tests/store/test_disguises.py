"""Secrets in disguise are found, ordinary text is left alone, and every find stands where the disguise stood.

`pytest -s` prints how many of thirty survive in each disguise.
"""

from __future__ import annotations

import base64
import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.store.disguise import readings
from ethogram.store.redact import SECRETS, Redactor
from ethogram.store.text_view import View

REDACTOR = Redactor(b"a key for tests")
MOST = 15
"""How many of the 270 disguised secrets may be left."""


def _neighbour(name: str) -> ModuleType:
    """Load a neighbour by its path: tests are no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MADE: Any = _neighbour("disguise_set")
KINDS: Any = _neighbour("redaction_set").TOKENS


@pytest.mark.parametrize(("form", "seed"), [("USUAL", 20_261_116), ("OTHER", 5)])
def test_of_270_disguised_secrets_hardly_any_can_be_read_afterwards(form: str, seed: int) -> None:
    planted = MADE.planted(KINDS, getattr(MADE, form), seed)
    assert len(planted) == 270
    assert len({kind for _, kind, _, _ in planted}) >= 17
    assert all(MADE.survives(secret, text) for _, _, secret, text in planted)  # undoing the disguise reads them
    left = Counter(name for name, _, secret, text in planted if MADE.survives(secret, REDACTOR.redact(text).text))
    print(f"\n{form.lower()} disguises: {left.total()} of 270 left", dict(left))
    assert left.total() <= MOST


def test_ordinary_text_that_looks_a_little_like_a_disguise_is_left_alone() -> None:
    kinds = Counter(f.kind for text in MADE.ordinary(1) for f in Redactor(b"k", SECRETS).find(text))
    assert not kinds


def test_what_was_disguised_is_replaced_as_a_whole_and_nothing_beside_it() -> None:
    key = "sk-" + "proj-" + "Zq3k" * 12
    spaced = REDACTOR.redact(f"it is {' '.join(key)} , they say").text
    assert spaced.startswith("it is [REDACTED:openai-key:")
    assert spaced.endswith("] , they say")
    wrapped = REDACTOR.redact(f"key: {key[:30]}\n  {key[30:]}\nnext line").text
    assert wrapped.startswith("key: [REDACTED:openai-key:")
    assert wrapped.endswith("]\nnext line")


def test_the_line_after_a_secret_is_not_part_of_it() -> None:
    key = "sk-" + "proj-" + "Zq3k" * 12
    for after in ("ANTHROPIC_MODEL=claude", "total 24", "drwxr-xr-x 2 root root", "2026-01-02 12:00", "next_step: 3"):
        assert REDACTOR.redact(f"OPENAI_API_KEY={key}\n{after}").text.endswith(f"]\n{after}")


@pytest.mark.parametrize("indent", [0, 1, 2, 31, 32, 41])
def test_letters_with_spaces_between_them_are_found_behind_any_indent(indent: int) -> None:
    key = "gh" + "p_" + "Zx9q" * 9
    text = REDACTOR.redact(f"the key:\n{' ' * indent}{' '.join(key)}\n").text
    assert text.startswith(f"the key:\n{' ' * indent}[REDACTED:github-token:")


def test_lines_of_base64_are_not_joined_even_where_a_plus_sign_stands_at_the_break() -> None:
    digits = random.Random(5)
    rows = [base64.b64encode(digits.randbytes(57)) for _ in range(40)]
    rows[10], rows[20] = rows[10][:-1] + b"+", b"+" + rows[20][1:]
    raw = b"\n".join(rows)
    assert not readings(raw, View(raw))


pieces = st.sampled_from(
    ["sk-" + "proj-" + "Ab3" * 12, "gh" + "p_" + "Zx9" * 12, "\n", "\n  ", "\u200b", "%2D", "\\u002d", " ", "w ",
     "key=", "c2stcHJvai1BYjNBYjNBYjNBYjNBYjNBYjNBYjM=", "\uff53\uff4b\uff0d", "[REDACTED:email:0123abcd]", "word", '"']
)  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(pieces, max_size=14).map("".join))
def test_finds_are_in_order_do_not_overlap_and_redacting_twice_changes_nothing(text: str) -> None:
    findings = REDACTOR.find(text)
    ends = [0, *(f.end for f in findings)]
    assert all(0 <= end <= f.start < f.end <= len(text) for end, f in zip(ends, findings, strict=False))
    once = REDACTOR.redact(text).text
    assert REDACTOR.redact(once).text == once


MACHINES = (
    "6f70656e", "00000000: 6f70 656e \n", "00000000 ",
    'data: {"delta": {"content": "sk-"}}\n', '"delta":"a" ', "chunk 1: 'sk-'\n",
    "\x1b[31msk", "\\u001b[31ma-", "ABCDEFGH", "H4sIAAAAAAAC/", "curl -u ", "&Signature=",
)  # fmt: skip
"""Beginnings of what machines write."""


def test_a_long_text_full_of_half_disguises_takes_no_longer_than_others() -> None:
    """No disguise may make somebody wait: time grows with the text, and not with its square."""
    import time

    rng = random.Random(3)
    for unit in ("a b ", "%2D", "Ab3Ab3Ab3\n", "\\u002d", "\u200b", "c2stcHJvai1", "sk-\n", "x9\n  ", *MACHINES):
        text = "".join(unit + rng.choice("xyz01") for _ in range(40_000 // len(unit)))
        began = time.process_time()
        REDACTOR.find(text)
        assert time.process_time() - began < 5, unit
    began = time.process_time()
    REDACTOR.find("++++++++\n" * 40_000)  # parts of tokens, and an indent, all the way
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("form", "seed"), [("USUAL", 20_261_116), ("OTHER", 5)])
def test_disguises_are_seen_as_well_among_other_short_texts(form: str, seed: int) -> None:
    texts = [text for *_, text in MADE.planted(KINDS, getattr(MADE, form), seed) if len(text) <= 1000]
    guilty = [text for text in texts if REDACTOR.find(text)]
    assert len(guilty) > 200
    for before, text in zip(MADE.ordinary(1) * 20, guilty, strict=False):
        assert not REDACTOR.are_clean([before[:1000], text, "and so on"]), text
