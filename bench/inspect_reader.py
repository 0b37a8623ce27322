"""How fast an Inspect log is read: our reader beside Inspect's own, on the same file, each in its own process.

    python bench/inspect_reader.py [--quick] [--samples 400] [--turns 20] [--shape inline|pooled]

`inline` is the shape of logs that repeat the whole context at every model call, `pooled` the one that holds
each message once. Both sides are measured twice: one sample at a time, and everything in memory at once.
Nothing is written outside a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
WAYS = {
    "ethogram, one trace at a time": "ours_streaming",
    "ethogram, all in memory": "ours_memory",
    "inspect, one sample at a time": "theirs_streaming",
    "inspect read_eval_log": "theirs_memory",
}
PEER = "inspect read_eval_log"
TEXT = "the agent looks at a file and finds that one value is not what it was asked for so it tries again"
WORDS = TEXT.split()


def main() -> None:
    options = arguments()
    if options.way:
        print(json.dumps(measured(options.way, Path(options.file))))
        return
    samples, turns = (60, 10) if options.quick else (options.samples, options.turns)
    with tempfile.TemporaryDirectory(prefix="ethogram-bench-") as folder:
        for shape in [options.shape] if options.shape else ["inline", "pooled"]:
            file = Path(folder) / f"{shape}.eval"
            size = generate(file, samples, turns, pooled=shape == "pooled")
            print(f"\n{shape}: {samples} samples, {turns * 2} model and tool events each, ", end="")
            print(f"{size / 1e6:.0f} MB of JSON in a zip of {file.stat().st_size / 1e6:.1f} MB")
            report({name: run(way, file) for name, way in WAYS.items()}, size, samples)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small file: 60 samples of 10 turns")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--turns", type=int, default=20, help="a turn is one model and one tool event")
    parser.add_argument("--shape", choices=["inline", "pooled"], help="only this shape")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    return parser.parse_args()


def generate(file: Path, samples: int, turns: int, *, pooled: bool, seed: int = 0) -> int:
    """Write a log as Inspect lays it out and give the number of bytes of its JSON."""
    rng = random.Random(seed)
    spec = {
        **{"eval_id": "bench", "run_id": "bench", "created": "2026-01-01T00:00:00+00:00", "task": "bench"},
        **{
            "task_id": "bench",
            "model": "mockllm/model",
            "config": {},
            "dataset": {"name": "bench", "samples": samples, "sample_ids": list(range(samples))},
        },
    }
    scores = [{"name": "match", "scorer": "match", "metrics": {"accuracy": {"name": "accuracy", "value": 0.5}}}]
    header = {"version": 2, "status": "success", "eval": spec, "results": {"total_samples": samples, "scores": scores}}
    total = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(samples):
            data = json.dumps(sample(number + seed * samples, turns, rng, pooled=pooled)).encode()
            total += len(data)
            archive.writestr(f"samples/{number}_epoch_1.json", data)
        archive.writestr("header.json", json.dumps(header))
    return total


def sample(number: int, turns: int, rng: random.Random, *, pooled: bool) -> dict[str, Any]:
    def text(words: int) -> str:
        return " ".join(rng.choices(WORDS, k=words))

    def base(kind: str, at: int) -> dict[str, Any]:
        stamp = f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}.000000+00:00"
        return {"uuid": f"{number}-{kind}-{at}", "timestamp": stamp, "working_start": float(at), "event": kind}

    said: list[dict[str, Any]] = [
        {"id": f"{number}-s", "role": "system", "content": text(200)},
        {"id": f"{number}-u", "role": "user", "content": text(100)},
    ]
    events: list[dict[str, Any]] = []
    spent = 0
    for turn in range(turns):
        context: dict[str, Any] = {"input": [], "input_refs": [[0, len(said)]]} if pooled else {"input": list(said)}
        call = {"id": f"c{turn}", "function": "look", "arguments": {"path": text(3)}, "type": "function"}
        answer = {"id": f"{number}-a{turn}", "role": "assistant", "content": text(40), "tool_calls": [call]}
        usage = {"input_tokens": 100 * turn, "output_tokens": 60, "total_tokens": 100 * turn + 60}
        output = {"model": "model", "choices": [{"message": answer, "stop_reason": "tool_calls"}], "usage": usage}
        model = {"model": "mockllm/model", "tools": [], "tool_choice": "auto", "config": {"temperature": 0.5}}
        events.append({**base("model", turn * 2), **model, **context, "output": output})
        result = text(120)
        tool = {"type": "function", "id": f"c{turn}", "function": "look", "arguments": call["arguments"]}
        events.append({**base("tool", turn * 2 + 1), **tool, "result": result, "events": []})
        reply = {"id": f"{number}-t{turn}", "role": "tool", "content": result, "tool_call_id": f"c{turn}"}
        said += [answer, {**reply, "function": "look"}]
        spent += 100 * turn
    counts = {"input_tokens": spent, "output_tokens": 60 * turns, "total_tokens": spent + 60 * turns}
    return {
        **{"id": number, "epoch": 1, "input": said[1]["content"], "target": "x", "messages": said, "metadata": {}},
        **{"output": events[-2]["output"], "scores": {"match": {"value": "C" if number % 2 else "I"}}, "store": {}},
        **{"events": events, "model_usage": {"mockllm/model": counts}, "uuid": f"bench-{number}", "attachments": {}},
        **({"events_data": {"messages": said, "calls": []}} if pooled else {}),
    }


def run(way: str, file: Path) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--way", way, "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": 1.0, "why": reason}  # type: ignore[dict-item]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measured(way: str, file: Path) -> dict[str, float]:
    """Wall and CPU seconds of the reading alone, the peak memory of the process, and what was found."""
    read = globals()[way]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    samples, tokens = read(file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "wall": wall,
        "cpu": cpu,
        "peak": peak / 1024,
        "grown": (peak - before) / 1024,
        "n": samples,
        "tokens": tokens,
    }


def ours_streaming() -> Any:
    sys.path.insert(0, str(SOURCE))
    from ethogram.capture.intake import Intake, SourceReport
    from ethogram.capture.readers import reader
    from ethogram.capture.source import file_source
    from ethogram.traces import Origin, text_ref

    found = reader("inspect")

    class Sink:
        """Counts; keeps nothing, and redacts nothing."""

        tokens = 0
        idle = True

        def text(self, body: str, field: str, original: str | None = None) -> Any:
            return text_ref(body)

        def clean(self, value: str, field: str) -> str:
            return value

        def span(self, span: Any) -> None:
            Sink.tokens += span.output_tokens or 0

        def finish(self, head: Any, labels: Any) -> None: ...

        def abort(self) -> None: ...

    def read(file: Path) -> tuple[int, int]:
        report = SourceReport(source=file.name)
        source = file_source(file, file.name)
        found.read(source, Intake(lambda trace: Sink(), Origin("inspect", file.name, source.digest), report))
        assert not report.skipped, report.skipped
        return report.traces, Sink.tokens

    return read


def ours_memory() -> Any:
    sys.path.insert(0, str(SOURCE))
    from ethogram.capture.memory import read_traces
    from ethogram.capture.source import file_source

    def read(file: Path) -> tuple[int, int]:
        traces, report = read_traces(file_source(file, file.name), "inspect")
        assert not report.skipped, report.skipped
        return len(traces), sum(t.totals.output_tokens or 0 for t in traces)

    return read


def theirs_memory() -> Any:
    from inspect_ai.log import read_eval_log

    return lambda file: counted(read_eval_log(str(file)).samples or [])


def theirs_streaming() -> Any:
    from inspect_ai.log import read_eval_log_samples

    return lambda file: counted(read_eval_log_samples(str(file), all_samples_required=False))


def counted(samples: Any) -> tuple[int, int]:
    found = tokens = 0
    for one in samples:
        found += 1
        tokens += sum(e.output.usage.output_tokens for e in one.events if e.event == "model" and e.output.usage)
    return found, tokens


def report(results: dict[str, dict[str, float]], size: int, samples: int) -> None:
    peer = results[PEER]
    names = ("MB/s", "samples/s", "CPU s", "peak MB", "grown MB", "x wall", "x CPU", "x memory")
    print(f"{'':32}" + "".join(f"{name:>11}" for name in names))
    tokens = {one["tokens"] for one in results.values() if "tokens" in one}
    assert len(tokens) <= 1, f"the token counts differ: {tokens}"
    for name, one in results.items():
        if "failed" in one:
            print(f"{name:32} not measured: {one['why']}")
            continue
        assert one["n"] == samples, f"{name} found {one['n']} of {samples} samples"
        speed = (size / 1e6 / one["wall"], samples / one["wall"])
        line = f"{name:32}{speed[0]:11.1f}{speed[1]:11.0f}{one['cpu']:11.2f}{one['peak']:11.0f}{one['grown']:11.0f}"
        if "failed" not in peer:
            ratios = (
                peer["wall"] / one["wall"],
                peer["cpu"] / one["cpu"],
                max(peer["grown"], 1) / max(one["grown"], 1),
            )
            line += "".join(f"{ratio:10.1f}x" for ratio in ratios)
        print(line)
    print(f"x: how many times less time, CPU or growing memory than {PEER}; all found the same tokens")


if __name__ == "__main__":
    main()
