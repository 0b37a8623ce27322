"""Claims: a query over the spans of 1,000 runs takes at most twice the CPU of plain DuckDB on the same files, and
counting 200,000 episodes takes less than half a CPU second, start of the library included."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict

QUERY = "SELECT kind, count(*) AS n, sum(output_tokens) AS tokens FROM {} GROUP BY kind ORDER BY kind"
PLAIN = """
import glob, sys, duckdb
files = sorted(glob.glob(sys.argv[1] + "/runs/*/spans-*.parquet"))
OUT = dict(rows=duckdb.connect().sql(sys.argv[2].format(f"read_parquet({files})")).fetchall())
"""
OURS = """
import sys
from ethogram.questions.home.queries import sql
OUT = dict(rows=[list(r.values()) for r in sql(sys.argv[2].format("spans"), home=sys.argv[1]).records])
"""
COUNT = """
import sys
from ethogram.questions.home.queries import sql
OUT = dict(rows=sql("SELECT count(*) AS n FROM episodes", home=sys.argv[1]).records)
"""


def write_run(folder: Path, name: str, first: int, traces: int, spans: int) -> None:
    with plain_writer(new_home(folder), name) as writer:
        for trace in range(first, first + traces):
            sink = writer.trace(synthetic_head(trace).trace_id)
            for span in synthetic_spans(trace, spans):
                sink.span(span)
            sink.finish(synthetic_head(trace), ())


def spans_of_many_runs(folder: Path, runs: int) -> bool:
    for number in range(runs):
        write_run(folder, f"run-{number:04d}", number * 20, traces=20, spans=20)
    answers = {
        name: [child(code, str(folder), QUERY) for _ in range(3)] for name, code in (("plain", PLAIN), ("ours", OURS))
    }
    assert answers["plain"][0]["rows"] == answers["ours"][0]["rows"]
    plain, ours = (min(a["cpu_s"] for a in answers[name]) for name in ("plain", "ours"))
    table(
        "a query over spans, a fresh process each",
        ["runs", "spans", "plain DuckDB CPU s", "ethogram CPU s", "ratio"],
        [[runs, runs * 400, plain, ours, ours / plain]],
    )
    return verdict(f"at most twice the CPU of plain DuckDB ({ours / plain:.2f}×)", ours <= 2 * plain)


def count_of_episodes(folder: Path, episodes: int) -> bool:
    write_run(folder, "large", 0, traces=episodes, spans=1)
    counts = [child(COUNT, str(folder)) for _ in range(3)]
    assert counts[0]["rows"] == [{"n": episodes}]
    used = min(c["cpu_s"] for c in counts)
    table("counting episodes, a fresh process each", ["episodes", "CPU s"], [[episodes, used]])
    return verdict(f"less than half a CPU second ({used:.2f} s)", used < 0.5)


def main() -> bool:
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as large:
        held = spans_of_many_runs(Path(many), 200 if QUICK else 1_000)
        return count_of_episodes(Path(large), 20_000 if QUICK else 200_000) and held


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
