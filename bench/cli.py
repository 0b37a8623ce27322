"""Claims: `ethogram --help` takes under 200 ms of CPU and `ethogram runs` on 1 000 runs under a second; on a small home
`runs` and `show` take at most 0.25 s, and `stats` at most 0.15 s more than importing what it uses."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, command_cpu, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict

from ethogram.store import Home

RUNS = 100 if QUICK else 1000


STATS_IMPORTS = "import typer, ethogram.cli.stats, scipy.special, pyarrow.parquet"


def write_run(home: Home, name: str, traces: int, spans: int) -> None:
    with plain_writer(home, name) as writer:
        for trace in range(traces):
            sink = writer.trace(synthetic_head(trace).trace_id)
            for span in synthetic_spans(trace, spans):
                sink.span(span)
            sink.finish(synthetic_head(trace), ())


def main() -> bool:
    ethogram = str(Path(sys.executable).parent / "ethogram")
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        for i in range(3):
            write_run(new_home(Path(small)), f"run-{i}", 20, 8)
        for i in range(RUNS):
            write_run(new_home(Path(large)), f"run-{i:04d}", 10, 4)
        env = {"ETHOGRAM_HOME": small}
        # the first call prices the episodes and keeps what it found; all later ones are warm
        first = command_cpu(ethogram, "show", "run-0", env=env, repeats=1)
        measured = {
            "--help": command_cpu(ethogram, "--help", repeats=5),
            "runs, small home": command_cpu(ethogram, "runs", env=env, repeats=5),
            "show, small home": command_cpu(ethogram, "show", "run-0", env=env, repeats=5),
            "show, small home, for the first time": first,
            "stats, small home": command_cpu(ethogram, "stats", "run-0", env=env, repeats=5),
            "imports of stats alone": command_cpu(sys.executable, "-c", STATS_IMPORTS, repeats=5),
            f"runs on {RUNS:,} runs": command_cpu(ethogram, "runs", "--json", env={"ETHOGRAM_HOME": large}),
        }
    table("commands", ["command", "CPU s", "wall s"], [[name, *times] for name, times in measured.items()])
    used = {name: times[0] for name, times in measured.items()}
    beyond = used["stats, small home"] - used["imports of stats alone"]
    return all(
        [
            verdict(f"--help under 0.2 s of CPU ({used['--help']:.3f})", used["--help"] < 0.2),
            verdict(f"runs within 0.25 s of CPU ({used['runs, small home']:.3f})", used["runs, small home"] <= 0.25),
            verdict(f"show within 0.25 s of CPU ({used['show, small home']:.3f})", used["show, small home"] <= 0.25),
            verdict(f"stats within its imports and 0.15 s ({beyond:.3f} beyond them)", beyond <= 0.15),
            verdict(
                f"runs on {RUNS:,} runs under 1 s of CPU ({used[f'runs on {RUNS:,} runs']:.3f})",
                used[f"runs on {RUNS:,} runs"] < 1.0,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
