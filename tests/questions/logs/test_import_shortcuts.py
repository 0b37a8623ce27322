"""Searching many words at once is a shortcut: what is stored must be exactly what the long way stores."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.logs.imports import _Import, import_logs
from ethogram.questions.logs.source_names import clean_name
from ethogram.store import Home
from ethogram.store.files import LocalFiles
from ethogram.store.redact import Redactor, policy_from
from ethogram.store.writer import RunWriter

SECRETS = (
    "joe.smith@example.org",
    "sk-ant-api03-Zx9Qw7Er5Ty3Ui1Op8As6Df4Gh2Jk0L",
    "AKIAIOSFODNN7EXAMPLE",
    "4111 1111 1111 1111",
    "+1 415 555 2671",
    "password=Tr0ub4dor&3xyz",
    "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
    "https://bob:hunter2horse@example.com/x",
    "DE89370400440532013000",
    "Authorization: Bearer abcDEF123ghiJKL456mnoPQR789",
)
PLAIN = st.text(st.sampled_from('abcXYZ 019-_.:=@/\\"\n\u00e9\u200b{}[]'), max_size=60)
WORDS = st.lists(st.one_of(PLAIN, st.sampled_from(SECRETS)), min_size=1, max_size=4).map("".join)
POLICIES = st.sampled_from(["default", "secrets", "default,-email", "default,arguments=keep", "none"])
FIELDS = st.sampled_from(["input", "arguments", "meta", "name"])
KEY = b"0123456789abcdef"


@given(values=st.lists(WORDS, max_size=30), fields=st.data(), spec=POLICIES, patterns=st.sampled_from([(), ("z=XY+",)]))
@settings(max_examples=150, deadline=None)
def test_values_that_were_announced_are_redacted_as_each_of_them_alone(values, fields, spec, patterns) -> None:
    redactor = Redactor(KEY, policy_from(spec, patterns))
    with tempfile.TemporaryDirectory() as folder:
        run = Home(LocalFiles(Path(folder))).create("r", "import")
        with RunWriter(run.files, run.path, redactor, window=None) as writer:
            writer.expect(values)
            sink = writer.trace("b2:" + "0" * 32)  # type: ignore[arg-type]
            for value in (*values, *values):
                field = fields.draw(FIELDS)
                alone = redactor.redact(value, field).text
                assert writer.clean(value, field) == alone
                assert sink.clean(value, field) == alone
            sink.abort()


@given(names=st.lists(WORDS.filter(bool), max_size=20), spec=POLICIES)
@settings(max_examples=100, deadline=None)
def test_names_that_are_searched_together_are_redacted_as_each_of_them_alone(names, spec) -> None:
    redactor = Redactor(KEY, policy_from(spec))
    found = _Import.__new__(_Import)
    found.plain_names = set()
    found._expect_names(names, redactor)
    for name in found.plain_names:
        assert clean_name(name, redactor) == name


@pytest.mark.parametrize("redact", ["default", "secrets", "none"])
def test_an_import_with_planted_secrets_stores_what_the_long_way_stores(
    tmp_path: Path, redact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, secret in enumerate((*SECRETS, "nothing at all")):
        call = {"name": "look", "arguments": json.dumps({"query": f"find {secret}", "note": "x" * 80})}
        talk = [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": f"it is {secret}, you know"},
            {
                "role": "assistant",
                "content": secret,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps([{"a": secret, "b": "y" * 90}])},
            {"role": "assistant", "content": "done"},
        ]
        chat = {"id": f"chat-{number}", "task_id": secret, "note": secret, "messages": talk}
        (logs / f"{number} {secret.replace('/', ' ')}.json").write_text(json.dumps(chat))
    monkeypatch.setenv("ETHOGRAM_REDACTION_KEY", "k" * 32)
    short = _stored(tmp_path / "short", logs, redact)
    monkeypatch.setattr(RunWriter, "expect", lambda self, values: None)
    monkeypatch.setattr(_Import, "_expect_names", lambda self, names, redactor: None)
    assert short == _stored(tmp_path / "long", logs, redact)
    if redact == "default":
        assert not [s for s in SECRETS if any(s in body for body in short[1])]


def _stored(place: Path, logs: Path, redact: str) -> tuple[list[str], list[str]]:
    done = import_logs(logs, home=str(place), run="r", redact=redact)
    assert done.traces == len(SECRETS) + 1
    run = Home(LocalFiles(place)).resolve("r")
    heads = sorted(repr((t.head.task, t.head.meta, t.head.origin, t.head.trace_id)) for t in run.traces())
    return [*heads, repr(done.redactions)], sorted(body for t in run.traces() for body in t.texts.values())
