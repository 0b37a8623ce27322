"""Claims: `ethogram --help` takes under 200 ms of CPU, `ethogram runs` on 1 000 runs under a second."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, command_cpu, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict

RUNS = 100 if QUICK else 1000


def main() -> bool:
    ethogram = str(Path(sys.executable).parent / "ethogram")
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        for i in range(RUNS):
            with plain_writer(home, f"run-{i:04d}") as writer:
                for trace in range(10):
                    sink = writer.trace(synthetic_head(trace).trace_id)
                    for span in synthetic_spans(trace, 4):
                        sink.span(span)
                    sink.finish(synthetic_head(trace), ())
        help_cpu, help_wall = command_cpu(ethogram, "--help")
        runs_cpu, runs_wall = command_cpu(ethogram, "runs", "--json", env={"ETHOGRAM_HOME": folder})
    rows = [["ethogram --help", help_cpu, help_wall], [f"ethogram runs on {RUNS:,} runs", runs_cpu, runs_wall]]
    table("commands", ["command", "CPU s", "wall s"], rows)
    return all(
        [
            verdict(f"--help under 0.2 s of CPU ({help_cpu:.3f})", help_cpu < 0.2),
            verdict(f"runs under 1 s of CPU ({runs_cpu:.3f})", runs_cpu < 1.0),
        ]
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
