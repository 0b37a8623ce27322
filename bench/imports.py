"""Claims: imports are 2 times faster than before with redaction, 2.5 times without; counted in plain passes over the
same files (`json.loads`, BLAKE2b and zstd), so that the speed of the machine plays no part.

    python bench/imports.py [--quick] [--before PATH]

Three sets: many small chats, one large file of OpenTelemetry spans, and small Inspect logs, where the other side is
Inspect's own `read_eval_log`. Every side runs in a process of its own on the same files, and CPU seconds are counted
without the start of Python; sides take turns, and the least of each counts, since the speed of a shared machine
changes from minute to minute. `--before` names the checkout of another version, which is then measured in the same run.

BEFORE is what commit e06a176 cost in multiples of the plain pass, measured in one run with the version that came after.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import inspect_reader
from _common import QUICK, table, verdict
from growth import WORDS, words

FILES = 300 if QUICK else 1500
SPAN_BYTES = (5 if QUICK else 30) * 1_000_000
LOGS = 150
TURNS = 3
OWN = Path(__file__).resolve().parents[1]
BEFORE = {"chats": (31.5, 22.6), "spans": (21.5, 15.7)}
"""Multiples of the plain pass, with redaction and without."""
GAIN = (2.0, 2.5)
"""How many times less than before an import should cost, with redaction and without."""

IMPORT = """
import sys, tempfile, time
from ethogram.questions.logs.imports import import_logs
from ethogram.capture.readers import MODULES, reader
import pyarrow.parquet
for name in MODULES:
    reader(name)
best = float("inf")
for _ in range(3):
    with tempfile.TemporaryDirectory() as home:
        started = time.process_time()
        done = import_logs(sys.argv[1], home=home, run="bench", redact=sys.argv[2])
        best = min(best, time.process_time() - started)
assert done.traces and not done.skipped, done
"""
PLAIN = """
import json, sys, time, zstandard
from hashlib import blake2b
from pathlib import Path
best = float("inf")
for _ in range(3):
    started = time.process_time()
    packer = zstandard.ZstdCompressor(level=3)
    for path in sorted(Path(sys.argv[1]).iterdir()):
        data = path.read_bytes()
        for line in data.splitlines():
            json.loads(line)
        blake2b(data).hexdigest(), packer.compress(data)
    best = min(best, time.process_time() - started)
"""
THEIRS = """
import sys, time
from pathlib import Path
from inspect_ai.log import read_eval_log
paths = sorted(map(str, Path(sys.argv[1]).iterdir()))
best = float("inf")
for _ in range(3):
    started = time.process_time()
    for path in paths:
        assert read_eval_log(path).samples
    best = min(best, time.process_time() - started)
"""
OURS = """
import sys, time
from pathlib import Path
from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
paths = sorted(Path(sys.argv[1]).iterdir())
best = float("inf")
for _ in range(3):
    started = time.process_time()
    for path in paths:
        assert read_traces(file_source(path, path.name))[0]
    best = min(best, time.process_time() - started)
"""


def cpu(code: str, version: Path, *args: str) -> float:
    """The least CPU seconds of three passes, in a process that imports one version of Ethogram."""
    env = {**os.environ, "PYTHONPATH": str(version / "src")}
    command = [sys.executable, "-c", f"{code}\nprint(best)", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.split()[-1])


def in_turns(*sides: tuple[str, Path, tuple[str, ...]]) -> list[float]:
    """The least CPU seconds of each side, which take turns."""
    return [
        min(took)
        for took in zip(*([cpu(code, at, *args) for code, at, args in sides] for _ in range(TURNS)), strict=True)
    ]


def record(rng: random.Random) -> dict[str, Any]:
    """What a tool answers: ids, dates, numbers, words, an address."""
    return {
        "id": str(uuid.UUID(int=rng.getrandbits(128))),
        "created_at": f"2026-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}T0{rng.randint(1, 9)}:30:00Z",
        "price": round(rng.uniform(5, 900), 2),
        "note": " ".join(rng.choices(WORDS, k=8)),
        "url": f"https://shop.example.com/items/{rng.getrandbits(30)}",
    }


def turn(rng: random.Random, page: int) -> tuple[str, str, str, str]:
    """Words, the id of a call, its arguments and its result."""
    arguments = json.dumps({"query": " ".join(rng.choices(WORDS, k=5)), "page": page})
    result = json.dumps([record(rng) for _ in range(2)])
    return " ".join(rng.choices(WORDS, k=20)), f"call_{rng.getrandbits(60):x}", arguments, result


def chats(folder: Path) -> None:
    """Conversations of four answers and three tool calls, one a file, about 4.5 KB each."""
    rng = random.Random(1)
    for number in range(FILES):
        talk: list[dict[str, Any]] = [{"role": r, "content": words(rng)} for r in ("system", "user")]
        for page in range(3):
            said, call_id, arguments, result = turn(rng, page)
            call = {"id": call_id, "type": "function", "function": {"name": "search", "arguments": arguments}}
            talk.append({"role": "assistant", "content": said, "tool_calls": [call]})
            talk.append({"role": "tool", "tool_call_id": call_id, "content": result})
        talk.append({"role": "assistant", "content": words(rng)})
        chat = {"id": f"chat-{number}", "task_id": f"task-{number % 50}", "model": "model-a", "messages": talk}
        (folder / f"chat-{number:05d}.json").write_text(json.dumps(chat))


def spans(folder: Path) -> None:
    """OTLP lines, one trace each: an agent, six model calls whose context grows, six tool calls."""
    rng = random.Random(2)
    with (folder / "spans.jsonl").open("w") as out:
        while out.tell() < SPAN_BYTES:
            out.write(json.dumps(agent_trace(rng)) + "\n")


def agent_trace(rng: random.Random) -> dict[str, Any]:
    """One OTLP document with one trace."""
    trace, root = f"{rng.getrandbits(128):032x}", f"{rng.getrandbits(64):016x}"
    begin = 1_760_000_000_000_000_000 + rng.getrandbits(50)

    def span(name: str, at: int, parent: str | None, **attributes: Any) -> dict[str, Any]:
        pairs = [{"key": f"gen_ai.{k.replace('__', '.')}", "value": {"stringValue": v}} for k, v in attributes.items()]
        times = {"startTimeUnixNano": str(begin + at * 10**9), "endTimeUnixNano": str(begin + at * 10**9 + 9 * 10**8)}
        own = root if parent is None else f"{rng.getrandbits(64):016x}"
        return {"traceId": trace, "spanId": own, "name": name, **times, "attributes": pairs} | (
            {} if parent is None else {"parentSpanId": parent}
        )

    found = [span("invoke_agent helper", 0, None, operation__name="invoke_agent", agent__name="helper")]
    talk: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": words(rng)}]}]
    for page in range(6):
        said, call_id, arguments, result = turn(rng, page)
        call = {"type": "tool_call", "id": call_id, "name": "search", "arguments": json.loads(arguments)}
        answer = {"role": "assistant", "parts": [{"type": "text", "content": said}, call], "finish_reason": "tool_call"}
        asked = {"operation__name": "chat", "provider__name": "openai", "request__model": "model-a"}
        spoken = {"input__messages": json.dumps(talk), "output__messages": json.dumps([answer])}
        found.append(span("chat model-a", 2 * page + 1, root, **asked, **spoken))
        tool = {"operation__name": "execute_tool", "tool__name": "search", "tool__call__id": call_id}
        done = {"tool__call__arguments": arguments, "tool__call__result": result}
        found.append(span("execute_tool search", 2 * page + 2, root, **tool, **done))
        response = {"type": "tool_call_response", "id": call_id, "response": result}
        talk += [answer, {"role": "tool", "parts": [response]}]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "helper"}, "spans": found}]}]}


def logs(folder: Path) -> None:
    """Inspect logs of two samples with three turns each."""
    for number in range(LOGS):
        inspect_reader.generate(folder / f"log{number:03d}.eval", 2, 3, pooled=bool(number % 2), seed=number)


def main() -> bool:
    """Measure, print, and say what held."""
    other = Path(sys.argv[sys.argv.index("--before") + 1]).resolve() if "--before" in sys.argv else None
    rows, claims = [], []
    with tempfile.TemporaryDirectory(prefix="ethogram-bench-") as top:
        for make in (chats, spans, logs):
            (Path(top) / make.__name__).mkdir()
            make(Path(top) / make.__name__)
        for name in ("chats", "spans"):
            folder = Path(top) / name
            size = sum(f.stat().st_size for f in folder.iterdir()) / 1e6
            for which, redact in enumerate(("default", "none")):
                args = (str(folder), redact)
                sides = [(PLAIN, OWN, args[:1]), (IMPORT, OWN, args), *([(IMPORT, other, args)] if other else [])]
                plain, now, *more = in_turns(*sides)
                was = more[0] if more else BEFORE[name][which] * plain
                rows.append([f"{name}, redact {redact}", size, size / now, now / plain, was / plain, was / now])
                gain = was / now
                claims.append(
                    (f"{name}, redact {redact}: {gain:.2f} times faster, at least {GAIN[which]}", gain >= GAIN[which])
                )
        folder = Path(top) / "logs"
        size = sum(f.stat().st_size for f in folder.iterdir()) / 1e6
        for what, code, more in (("read", OURS, ()), ("imported, redacted and stored", IMPORT, ("default",))):
            args = (str(folder), *more)
            sides = [(THEIRS, OWN, args[:1]), (code, OWN, args), *([(code, other, args)] if other else [])]
            theirs, ours, *earlier = in_turns(*sides)
            was = earlier[0] if earlier else 0.0
            rows.append(
                [f"inspect logs {what}, x read_eval_log", size, size / ours, ours / theirs, was / theirs, was / ours]
            )
            claims.append((f"small Inspect logs {what}: {ours / theirs:.2f} of read_eval_log's CPU", ours <= theirs))
    table("imports", ["what", "MB", "MB/CPU s", "x plain pass", "before", "times faster"], rows)
    return all([verdict(claim, held) for claim, held in claims])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
