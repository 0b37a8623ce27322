"""Read a log straight into memory, for a notebook or a test: nothing is written, and nothing is redacted.

python examples/without_a_store.py [FILE]      any log; without one, a session of the demonstration
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
from ethogram.worlds.demo import copy_demo_logs


def main() -> None:
    """Read, then print each step."""
    with tempfile.TemporaryDirectory() as folder:
        copy_demo_logs(folder)
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "coding-session.jsonl"
        traces, report = read_traces(file_source(path, path.name))
        print(f"{report.format}: {report.traces} traces, {report.spans} spans, lost {report.lost}")
        for trace in traces:
            for step, signature in zip(trace.steps, trace.signatures(), strict=True):
                print(f"{step.input_tokens or 0:>6} {signature}")


if __name__ == "__main__":
    main()
