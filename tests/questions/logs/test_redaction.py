"""A dry run of redaction: what would go, by kind and field, with nothing stored and no secret shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.logs.redaction import preview_redaction
from ethogram.store import Home
from ethogram.store.files import LocalFiles
from ethogram.store.ledger_file import unpack

KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"
MAIL = "ada.lovelace@example.org"


def stored(home: Home) -> bytes:
    assert isinstance(home.files, LocalFiles)
    root = Path(home.files.root)
    files = [p for p in root.rglob("*") if p.is_file()]
    return b"".join(unpack(p.name, p.read_bytes()) + p.name.encode() for p in files)


def test_what_an_import_would_take_out(logs: Any, home: Home) -> None:
    run = logs.turns("x", 0, words=f"I am {MAIL}, my key is {KEY}")
    run["traj"][1]["tool_calls"][0]["function"]["arguments"] = json.dumps({"mail": MAIL})
    path = logs.put("a.json", [run])
    preview = preview_redaction([str(path)], home=home)
    assert (preview.sources, preview.skipped) == (1, [])
    assert preview.texts > 0
    assert preview.chars > len(KEY)
    kinds = {f.kind for f in preview.found}
    assert "email" in kinds
    assert len(kinds) == 2
    text = preview.to_json()
    assert KEY not in text
    assert MAIL not in text
    assert len(preview.to_df()) == len(preview.found)
    for found in preview.found:
        assert found.distinct <= found.count
        assert all(mark.startswith("[REDACTED:") for mark in found.examples)
    assert home.names() == [], "nothing is stored"
    result = import_logs(path, home=home, run="r")
    assert set(result.redactions) == kinds
    assert KEY.encode() not in stored(home)
    assert MAIL.encode() not in stored(home)


def test_equal_secrets_have_equal_marks(logs: Any, home: Home) -> None:
    path = logs.put("a.jsonl", logs.chat(MAIL, "ok", f"again {MAIL}", "ok", "other@example.org", "ok"))
    mails = [f for f in preview_redaction([str(path)], home=home).found if f.kind == "email"]
    assert max(f.distinct for f in mails) == 2
    assert max(f.count for f in mails) > 2
    import_logs(path, home=home, run="r")
    (trace,) = home.resolve("r").traces()
    first, again, other = (m.text for m in trace.messages if m.role == "user")
    assert again == f"again {first}"
    assert other not in (first, again)


def test_policies_and_patterns(logs: Any, home: Home) -> None:
    path = str(logs.put("a.jsonl", logs.chat(f"mail {MAIL}, ticket BELL-1234", "ok")))
    assert preview_redaction([path], home=home, policy="none").found == []
    own = preview_redaction([path], home=home, patterns=["ticket=BELL-[0-9]+"])
    assert len({f.kind for f in own.found}) == 2
    with pytest.raises(BadUsage):
        preview_redaction([path], home=home, policy="everythng")
    with pytest.raises(NotFound):
        preview_redaction([path], home=home, format="poem")


def test_what_cannot_be_read_is_told_without_its_secrets(logs: Any, home: Home) -> None:
    logs.put(f"{MAIL} notes.txt", b"just words")
    logs.put("torn.gz", b"\x1f\x8bjunk")
    logs.put("good.jsonl", logs.chat("a", "b"))
    preview = preview_redaction([str(logs.root)], home=home)
    assert preview.sources == 2
    assert len(preview.skipped) == 2
    assert not any(MAIL in s for s in preview.skipped)
    assert any("damaged or cut off" in s for s in preview.skipped)
