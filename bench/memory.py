"""Claims: importing a 500 MB log and opening a 300 000-span trace each stay under 600 MB of resident memory.

Two logs: one JSON document that holds many runs (tau-bench), and one session that is a single trace (Claude Code).
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict
from growth import words

SIZE = (60 if QUICK else 500) * 1_000_000
SPANS = 30_000 if QUICK else 300_000
LIMIT_MB = 600

IMPORT = """
import sys, time
from ethogram.questions.logs.imports import import_logs
path, home = sys.argv[1:]
started = time.process_time()
done = import_logs(path, home=home, run="big")
OUT = dict(traces=done.traces, spans=done.spans, skipped=len(done.skipped), read_s=time.process_time() - started)
"""
OPEN = """
import sys, time
from ethogram.reading.traces import trace
started = time.process_time()
tree = trace(sys.argv[1], run="big", home=sys.argv[2])
OUT = dict(of=tree.of, shown=tree.shown, read_s=time.process_time() - started)
"""


def tau_bench(path: Path) -> None:
    rng = random.Random(1)
    with path.open("w") as out:
        out.write("[")
        trial = 0
        while out.tell() < SIZE:
            talk: list[dict[str, Any]] = [{"role": "system", "content": words(rng) * 20}]
            for i in range(12):
                call = {"id": f"c{i}", "type": "function", "function": {"name": "look_up", "arguments": '{"key": "a"}'}}
                talk.append({"role": "user", "content": words(rng)})
                talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
                talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": "look_up", "content": words(rng) * 6})
            item = {"task_id": trial % 50, "trial": trial // 50, "reward": float(trial % 2), "info": {}, "traj": talk}
            out.write(("," if trial else "") + json.dumps(item))
            trial += 1
        out.write("]")


def claude_code(path: Path) -> None:
    rng = random.Random(2)
    last, i = None, 0
    with path.open("w") as out:
        while out.tell() < SIZE:
            base = {"sessionId": "11111111-2222-4333-8444-555555555555", "isSidechain": False, "version": "2.0.0"}
            stamp = f"2026-01-{1 + i // 86400 % 28:02d}T{i // 3600 % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d}.000Z"
            usage = {
                "input_tokens": 10,
                "output_tokens": 50,
                "cache_read_input_tokens": 1000,
                "cache_creation_input_tokens": 5,
            }
            use = {"type": "tool_use", "id": f"toolu_{i}", "name": "Bash", "input": {"command": words(rng)[:80]}}
            message = {"id": f"msg_{i}", "role": "assistant", "model": "model-a", "content": [use], "usage": usage}
            reply = {
                **base,
                "type": "assistant",
                "uuid": f"a{i}",
                "parentUuid": last,
                "timestamp": stamp,
                "message": message,
            }
            body = [{"type": "tool_result", "tool_use_id": f"toolu_{i}", "content": words(rng) * 4}]
            said = {"role": "user", "content": body}
            answer = {
                **base,
                "type": "user",
                "uuid": f"u{i}",
                "parentUuid": f"a{i}",
                "timestamp": stamp,
                "message": said,
            }
            out.write(json.dumps(reply) + "\n" + json.dumps(answer) + "\n")
            last, i = f"u{i}", i + 1


def main() -> bool:
    rows, held = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("tau-bench", tau_bench), ("claude-code", claude_code)):
            log = Path(folder) / f"{name}.log"
            write(log)
            megabytes = log.stat().st_size / 1e6
            out = child(IMPORT, str(log), str(Path(folder) / f"home-{name}"))
            rate, spans = megabytes / out["read_s"], out["spans"] / out["read_s"]
            rows.append([f"import {name}", megabytes, out["traces"], out["spans"], rate, spans, out["rss_mb"]])
            held.append(
                (f"import of a {megabytes:.0f} MB {name} log: {out['rss_mb']:.0f} MB", out["rss_mb"] < LIMIT_MB)
            )
            log.unlink()
        home = new_home(Path(folder) / "home-open")
        with plain_writer(home, "big") as writer:
            head = synthetic_head(0)
            sink = writer.trace(head.trace_id)
            for span in synthetic_spans(0, SPANS):
                sink.span(span)
            sink.finish(head, ())
        out = child(OPEN, head.trace_id, str(Path(folder) / "home-open"))
        rows.append(["open one trace", 0.0, 1, out["of"], 0.0, out["of"] / out["read_s"], out["rss_mb"]])
        held.append((f"opening a {out['of']:,}-span trace: {out['rss_mb']:.0f} MB", out["rss_mb"] < LIMIT_MB))
    table("memory", ["what", "MB", "traces", "spans", "MB/CPU s", "spans/CPU s", "peak RSS MB"], rows)
    return all([verdict(f"{claim}, under {LIMIT_MB}", ok) for claim, ok in held])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
