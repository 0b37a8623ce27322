"""Two hundred secrets in every corner of the logs: none of them is in any byte of the home, sealed or not."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ethogram.questions.home.exports import export
from ethogram.questions.home.maintenance import verify
from ethogram.questions.home.runs import show
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Keyring
from ethogram.store.files import LocalFiles
from ethogram.store.ledger_file import unpack
from ethogram.store.segment import open_parquet
from ethogram.traces import (
    File,
    Head,
    Label,
    Message,
    Missing,
    Origin,
    Reasoning,
    Scored,
    Span,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    pack_message,
    text_ref,
)
from ethogram.traces.codec import encode

ALNUM = string.ascii_letters + string.digits
COUNT = 200


class Secret(NamedTuple):
    """A made-up secret: how it is written, and the part of it that must be found nowhere."""

    kind: str
    written: str
    core: str


def _chars(draw: random.Random, alphabet: str, size: int) -> str:
    return "".join(draw.choices(alphabet, k=size - 3)) + "aZ7"


def _luhn(digits: str) -> str:
    total = sum(d if i % 2 else d * 2 - 9 * (d > 4) for i, d in enumerate(map(int, reversed(digits))))
    return digits + str(-total % 10)


def _iban(digits: str) -> str:
    return f"DE{98 - int(digits + '131400') % 97:02d}{digits}"


def _jwt(draw: random.Random) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head, body = part({"alg": "HS256", "typ": "JWT"}), part({"sub": str(draw.getrandbits(60)), "iat": 1_700_000_000})
    return f"{head}.{body}.{_chars(draw, ALNUM + '-_', 43)}"


def _pem(draw: random.Random) -> tuple[str, str]:
    lines = [_chars(draw, ALNUM + "+/", 64) for _ in range(5)]
    kind = "RSA " + "PRIVATE KEY"
    return f"-----BEGIN {kind}-----\n" + "\n".join(lines) + f"\n-----END {kind}-----", lines[2]


def _same(make: Callable[[random.Random], str]) -> Callable[[random.Random], tuple[str, str]]:
    def both(draw: random.Random) -> tuple[str, str]:
        made = make(draw)
        return made, made

    return both


def _inside(frame: str, make: Callable[[random.Random], str]) -> Callable[[random.Random], tuple[str, str]]:
    def both(draw: random.Random) -> tuple[str, str]:
        made = make(draw)
        return frame.replace("*", made), made

    return both


# Put together at run time, so that no scanner of this repository finds one.
MAKERS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "openai": _same(lambda d: "sk-" + "proj-" + _chars(d, ALNUM, 48)),
    "anthropic": _same(lambda d: "sk-" + "ant-api03-" + _chars(d, ALNUM + "-_", 93) + "AA"),
    "aws": _same(lambda d: "AK" + "IA" + _chars(d, string.ascii_uppercase + "234567", 16).upper()),
    "github": _same(lambda d: "gh" + "p_" + _chars(d, ALNUM, 36)),
    "google": _same(lambda d: "AI" + "za" + _chars(d, ALNUM + "-_", 35)),
    "slack": _same(lambda d: "xo" + f"xb-{d.randrange(10**11, 10**12)}-1{_chars(d, ALNUM, 24)}"),
    "stripe": _same(lambda d: "sk_" + "live_" + _chars(d, ALNUM, 24)),
    "huggingface": _same(lambda d: "h" + "f_" + _chars(d, ALNUM, 34)),
    "jwt": _same(_jwt),
    "private key": _pem,
    "basic auth address": _inside("postgres://app:*@db.internal:5432/main", lambda d: _chars(d, ALNUM, 18)),
    "authorization": _inside("Authorization: Bearer *", lambda d: _chars(d, ALNUM, 40)),
    "password": _inside("password=*", lambda d: _chars(d, ALNUM, 16)),
    "email": _same(lambda d: f"{_chars(d, string.ascii_lowercase, 9).lower()}.{d.randrange(99)}@example.org"),
    "phone": _same(lambda d: f"+1 212 {d.randrange(220, 299)} {d.randrange(1000, 9999)}"),
    "card": _same(lambda d: _luhn("4" + "".join(d.choices(string.digits, k=14)))),
    "iban": _same(lambda d: _iban("".join(d.choices(string.digits, k=18)))),
}  # fmt: skip


def secrets(seed: int) -> list[Secret]:
    draw = random.Random(seed)
    kinds = list(MAKERS)
    return [Secret(kind, *MAKERS[kind](draw)) for kind in (kinds[n % len(kinds)] for n in range(COUNT))]


class Planter:
    """Hands out the secrets one by one, each in a few words, and remembers where it went."""

    def __init__(self, seed: int) -> None:
        self.all = secrets(seed)
        self.left = list(self.all)
        self.places: dict[str, list[str]] = {}

    def __call__(self, place: str, *, in_a_name: bool = False) -> str:
        """The next secret in a sentence; in a file name only those that a file name can hold."""
        pool = [s for s in self.left if "\n" not in s.written and "/" not in s.written] if in_a_name else self.left
        if not pool:
            return f"nothing left to plant in {place}"
        secret = pool[0]
        self.left.remove(secret)
        self.places.setdefault(place, []).append(secret.kind)
        return f"{place} has {secret.written} in it" if not in_a_name else secret.written


# -- logs with secrets in every corner -------------------------------------------------------------------------------


def our_trace(plant: Planter, number: int) -> Trace:
    """A trace in our own format, with a secret in every field that holds words."""
    texts: dict[Any, str] = {}

    def put(body: str) -> Any:
        texts[text_ref(body)] = body
        return text_ref(body)

    def message(role: Any, *parts: Any, name: str | None = None) -> Any:
        return put(pack_message(Message(role, parts, name), put))

    arguments = json.dumps(
        {"path": plant("tool argument"), plant("argument name"): [1, {"deep": plant("deep argument")}]}
    )
    long_result = plant("tool result") + " and so on" * 10
    call = ToolCall("search", arguments, plant("call id"))
    talk = (
        message("system", Text(plant("system message"))),
        message("user", Text(plant("user message")), name=plant("speaker")),
        message("user", File("image/png", plant("file address"))),
    )
    reply = message("assistant", Reasoning(plant("reasoning")), Text(plant("reply")), call)
    back = message("tool", ToolResult(long_result, "search", "c1", failed=True))
    trace_id = f"b2:{number:032x}"

    def span(**values: Any) -> Span:
        return Span(trace_id=trace_id, **values)  # type: ignore[arg-type]

    spans = (
        span(span_id="root", seq=0, kind="agent", name=plant("span name"), agent=plant("agent name")),
        span(
            span_id=plant("span id"),
            parent_id="root",
            seq=1,
            kind="model",
            name="chat",
            lane=plant("lane"),
            model=plant("model name"),
            provider=plant("provider"),
            prompt_version=plant("prompt version"),
            params={"stop": plant("parameter"), plant("parameter name"): 1},
            input=talk,
            output=(reply,),
            requested=("search",),
            stop_reason=plant("stop reason"),
            attributes=put(
                json.dumps({"note": plant("attribute"), plant("attribute name"): {"x": plant("deep attribute")}})
            ),
        ),
        span(
            span_id="tool",
            parent_id="root",
            seq=2,
            kind="tool",
            name=plant("tool span name"),
            tool=plant("tool name"),
            call_id="c1",
            status="error",
            error=put("Traceback (most recent call last):\n" + plant("error")),
            arguments=put(arguments),
            result=put(long_result),
            output=(back,),
        ),
    )
    outcome = (
        Missing("infrastructure.other", plant("outcome detail")) if number % 2 else Scored(0.0, plant("verdict by"))
    )
    head = Head(
        trace_id=trace_id,  # type: ignore[arg-type]
        episode=f"b2:{number:031x}e",  # type: ignore[arg-type]
        task=plant("task name"),
        attempt=number,
        condition=plant("condition"),
        agent=plant("head agent"),
        outcome=outcome,
        answer=put(plant("answer")),
        meta={"note": plant("meta"), plant("meta name"): "x"},
        origin=Origin("jsonl", plant("origin")),
    )
    labels = (
        Label(
            trace_id=trace_id,  # type: ignore[arg-type]
            name=plant("label name"),
            value=plant("label value"),
            by=plant("label by"),
            source="hand",
            why=put(plant("label why")),
            span_id=plant("label span"),  # type: ignore[arg-type]
            version=plant("label version"),
        ),
    )
    return Trace(head, spans, texts, labels)


def tau_bench(plant: Planter, number: int) -> list[dict[str, Any]]:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"q": plant("tau argument")})},
    }
    talk = [
        {"role": "user", "content": plant("tau user")},
        {"role": "assistant", "content": plant("tau reply"), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": plant("tau result")},
    ]
    info = {"error": plant("tau error"), "traceback": plant("tau traceback"), "source": plant("tau source"),
            "task": {"instruction": plant("tau instruction")}, plant("tau info name"): 1}  # fmt: skip
    bad = {"task_id": "bad", "trial": 0, "reward": plant("bad reward"), "traj": plant("bad trajectory"), "info": {}}
    return [
        {
            "task_id": plant("tau task"),
            "trial": number,
            "reward": 1.0,
            "info": info,
            "traj": talk,
            plant("tau field"): 1,
        },
        bad,
    ]


def chat(plant: Planter) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": plant("chat system")},
            {
                "role": "user",
                "content": [{"type": "text", "text": plant("chat user")}, {"type": plant("chat part"), "x": 1}],
            },
            {"role": "assistant", "content": plant("chat reply")},
        ],
        "model": plant("chat model"),
        plant("chat field"): plant("chat value"),
    }


def claude_code(plant: Planter) -> list[dict[str, Any]]:
    base = {"sessionId": "0b6a2f3c-1111-4222-8333-444455556666", "version": "1.0", "cwd": plant("folder")}
    return [
        {**base, "type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-01-01T00:00:00Z",
         "message": {"role": "user", "content": plant("prompt")}},
        {**base, "type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": "2026-01-01T00:00:01Z",
         "message": {"id": "m1", "role": "assistant", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1},
                     "content": [{"type": "thinking", "thinking": plant("thinking")},
                                 {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"c": plant("command")}}]}},
        {**base, "type": "user", "uuid": "u3", "parentUuid": "u2", "timestamp": "2026-01-01T00:00:02Z",
         "toolUseResult": {"stdout": plant("stdout")},
         "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True,
                                                  "content": plant("tool output")}]}},
        {**base, "type": plant("record type"), "uuid": "u4", "content": plant("odd record")},
    ]  # fmt: skip


def otlp(plant: Planter) -> dict[str, Any]:
    def attribute(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": plant("otlp name"),
        "startTimeUnixNano": "1750000000000000000",
        "endTimeUnixNano": "1750000001000000000",
        "status": {"code": 2, "message": plant("otlp status")},
        "attributes": [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.request.model", "m"),
            attribute("gen_ai.input.messages", json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": plant("otlp message")}]}])),
            attribute("custom.note", plant("otlp attribute")),
            attribute(plant("otlp key"), "x"),
        ],
        "events": [{"name": "exception", "timeUnixNano": "1750000000500000000",
                    "attributes": [attribute("exception.message", plant("otlp exception"))]}],
    }  # fmt: skip
    resource = {"attributes": [attribute("service.name", plant("otlp service"))]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]}


def logs(folder: Path, plant: Planter) -> Path:
    """A folder of logs in five formats, some of them damaged, until all secrets are planted."""
    number = 0
    while plant.left:
        below = folder / f"batch-{number}"
        below.mkdir(parents=True)
        (below / f"{plant('file name', in_a_name=True)}.json").write_text(json.dumps(tau_bench(plant, number)))
        (below / f"{plant('file name', in_a_name=True)}.jsonl").write_bytes(
            b"".join(line + b"\n" for line in encode(our_trace(plant, number)))
        )
        (below / "chat.jsonl").write_text(json.dumps(chat(plant)) + "\n" + plant("damaged line") + "\n")
        records = "\n".join(json.dumps(r) for r in claude_code(plant))
        (below / "session.jsonl").write_text(records.replace("444455556666", f"{number:012d}"))
        (below / "spans.json").write_text(json.dumps(otlp(plant)).replace("3fc60c", f"{number:06x}"))
        (below / f"{plant('unknown file', in_a_name=True)}.bin").write_text(plant("unknown content"))
        number += 1
    return folder


# -- looking for them ------------------------------------------------------------------------------------------------


def contents(home: Home) -> Iterator[tuple[str, str]]:
    """Every name and every byte of the home, unpacked, and every value in its Parquet files, opened with their keys."""
    root = Path(home.files.address)
    keys = {f"{r.path}/{f.name}": f.key for r in home.runs() for f in r.standing.files}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        yield f"name of {name}", name
        if not path.is_file():
            continue
        yield name, unpack(path.name, path.read_bytes()).decode("latin-1")
        if path.suffix == ".parquet":
            key = keys.get(name)
            with path.open("rb") as file:
                table = open_parquet(file, home.keys.get(key) if key else None).read()
            for column in table.column_names:
                yield f"{name}:{column}", "\n".join(str(v) for v in table.column(column).to_pylist() if v is not None)


def found_in(home: Home, planted: list[Secret]) -> list[tuple[str, str, str]]:
    pattern = re.compile("|".join(re.escape(s.core) for s in planted))
    kinds = {s.core: s.kind for s in planted}
    return [(kinds[m.group()], where, m.group()) for where, text in contents(home) for m in pattern.finditer(text)]


@pytest.mark.parametrize("sealed", [False, True], ids=["open", "sealed"])
def test_no_secret_reaches_the_disk(tmp_path: Path, keys: Keyring, sealed: bool) -> None:
    plant = Planter(seed=20 + sealed)
    folder = logs(tmp_path / "logs", plant)
    assert len(plant.all) == COUNT
    assert len({s.kind for s in plant.all}) >= 12
    assert len(plant.places) > 60
    if sealed:
        keys.new()
    home = Home(LocalFiles(tmp_path / "home"), keys)
    done = import_logs(folder, home=home, run="logs")
    assert done.traces >= 8
    assert {"jsonl", "tau-bench", "claude-code", "otlp"} <= set(done.formats)
    assert done.skipped  # what was damaged or unknown is reported, and the reports are kept
    assert sum(done.redactions.values()) >= COUNT * 0.8
    assert verify(home=home).ok
    leaks = found_in(home, plant.all)
    assert leaks == []
    said = done.to_json() + show("logs", home=home).to_json()
    assert [s for s in plant.all if s.core in said] == []  # nor does the screen say them
    assert bool(keys.ids()) == sealed


def test_the_search_would_find_them(tmp_path: Path) -> None:
    """The same logs without redaction: the search above finds secrets of every kind."""
    plant = Planter(seed=20)
    folder = logs(tmp_path / "logs", plant)
    home = Home(LocalFiles(tmp_path / "home"))
    import_logs(folder, home=home, run="logs", redact="none")
    leaks = found_in(home, plant.all)
    assert {kind for kind, _, _ in leaks} == set(MAKERS)
    assert len({core for _, _, core in leaks}) > COUNT * 0.8


def test_a_run_named_after_its_file_tells_nothing(tmp_path: Path) -> None:
    fit = [s for s in secrets(5)[:34] if "/" not in s.written and "\n" not in s.written]
    assert len(fit) > 17
    for number, secret in enumerate(fit):
        file = tmp_path / str(number) / f"{secret.written}.json"
        file.parent.mkdir()
        file.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": 1, "info": {}, "traj": []}]))
        home = Home(LocalFiles(tmp_path / f"home-{number}"))
        done = import_logs(file, home=home)
        assert secret.core not in done.run
        assert found_in(home, [secret]) == []


def test_what_goes_out_again_holds_none_either(tmp_path: Path) -> None:
    plant = Planter(seed=3)
    home = Home(LocalFiles(tmp_path / "home"))
    import_logs(logs(tmp_path / "logs", plant), home=home, run="logs")
    out = export("logs", "jsonl", out=tmp_path / "out.jsonl", home=home)
    text = Path(out.files[0]).read_text()
    assert [s for s in plant.all if s.core in text] == []


def test_equal_secrets_stay_equal_and_marks_hold_nothing(tmp_path: Path) -> None:
    secret = secrets(9)[0]
    log = tmp_path / "log.json"
    talk = [
        {"role": "user", "content": f"use {secret.written} please"},
        {"role": "assistant", "content": f"I used {secret.written}."},
    ]
    log.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": 1, "info": {}, "traj": talk}]))
    marks = []
    for name in ("one", "two"):
        home = Home(LocalFiles(tmp_path / name))
        import_logs(log, home=home, run="logs")
        (trace,) = home.run("logs").traces()
        found = re.findall(r"\[REDACTED:openai-key:[0-9a-f]{8}\]", "".join(m.text for m in trace.messages))
        assert len(found) == 2
        assert len(set(found)) == 1
        marks.append(found[0])
    assert marks[0] != marks[1]  # each home has a key of its own
