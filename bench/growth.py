"""Claims: a 50-step agent whose context grows takes at most a thirtieth of its JSON, and from 50 to 500 steps the
stored bytes grow at most 12 times."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _common import new_home, plain_writer, table, verdict

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.parse import to_json
from ethogram.traces import Message, Origin, Scored, Text, ToolCall, ToolResult, Trace

WORDS = (
    "the a of to and in for is on that by this with you it not or be are from at as your all have new more an was we "
    "order flight refund customer account update search result error value price number option change date request "
    "please confirm booking seat change policy agent tool call answer check detail record status found missing next "
    "file function return class test module import version build server client query table column index cache token"
).split()


def words(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(40, 150)))


def drafts(steps: int) -> list[Draft]:
    """An agent that calls a tool at every step and sends everything again each time."""
    rng = random.Random(7)
    context = [Message("system", (Text(words(rng)),)), Message("user", (Text(words(rng)),))]
    made = []
    for i in range(steps):
        arguments = to_json({"query": " ".join(rng.choice(WORDS) for _ in range(6)), "page": i})
        reply = Message("assistant", (Text(words(rng)), ToolCall("search", arguments, f"call_{i}")))
        made.append(
            Draft(
                kind="model",
                name="chat",
                model="model-a",
                input=tuple(context),
                output=(reply,),
                input_tokens=900 * i,
                output_tokens=120,
            )
        )
        result = Message("tool", (ToolResult(words(rng), "search", f"call_{i}"),))
        made.append(
            Draft(
                kind="tool",
                name="search",
                tool="search",
                call_id=f"call_{i}",
                arguments=arguments,
                result=result.text,
                output=(result,),
            )
        )
        context += [reply, result]
    return made


def stored_bytes(steps: int, folder: Path) -> int:
    home = new_home(folder)
    with plain_writer(home, "bench") as writer:
        intake = Intake(writer.trace, Origin("bench", str(steps)), SourceReport(source="bench"))
        with intake.trace("one") as trace:
            trace.outcome = Scored(1.0)
            for draft in drafts(steps):
                trace.add(draft)
    run = home.run("bench")
    check(run.trace(run.entries[0]), steps)
    return sum(f.stat().st_size for f in (folder / "runs" / "bench").rglob("*") if f.is_file())


def check(trace: Trace, steps: int) -> None:
    """Nothing was lost: the last call still has its whole context."""
    last = [s for s in trace.spans if s.kind == "model"][-1]
    expected = [d for d in drafts(steps) if d.kind == "model"][-1]
    assert trace.conversation(last) == tuple(expected.input)


def main() -> bool:
    rows = []
    for steps in (50, 500):
        with tempfile.TemporaryDirectory() as folder:
            stored = stored_bytes(steps, Path(folder))
        plain = len(to_json(drafts(steps)))
        rows.append([steps, plain, stored, plain / stored])
    table("a growing context", ["steps", "JSON bytes", "stored bytes", "ratio"], rows)
    growth = rows[1][2] / rows[0][2]
    return all(
        [
            verdict(f"50 steps take at most a thirtieth of their JSON (1/{rows[0][3]:.0f})", rows[0][3] >= 30),
            verdict(f"ten times the steps take at most 12 times the bytes ({growth:.1f}×)", growth <= 12),
        ]
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
