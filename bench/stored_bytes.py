"""Claims: an imported log takes at most twice the bytes of its raw files under zstd (level 3, file by file), and a run
of 50,000 episodes that do nothing at most 7.8 MB, a fifth of what plain JSON lines took (39 MB).

Logs are those of `../shared/data` (or of the folder in ETHOGRAM_BENCH_DATA), and 2,000 small chats made here. The claim
is made for corpora of at least 4 KiB under zstd: a segment of spans alone takes 5 to 6 KiB of column descriptions.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, new_home, table, verdict
from growth import WORDS

from ethogram.errors import EthogramError
from ethogram.questions.logs.imports import import_logs

DATA = Path(os.environ.get("ETHOGRAM_BENCH_DATA", Path(__file__).parents[2] / "shared" / "data"))
LEAST = 4 << 10
BEFORE = 39_000_000
NO_OP = """
import sys
from ethogram.plans import Check, Suite, Task
from ethogram.harness.suites import run as run_suite
count, tasks = int(sys.argv[1]), 50
check = (Check(kind="equals"),)
suite = Suite(name="b", tasks=tuple(Task(id=f"t{i}", prompt="say hi", expected="hi", checks=check) for i in range(tasks)))
async def agent(task, episode):
    with episode.record.model(model="mock") as call:
        call.done("hi", input_tokens=2, output_tokens=1)
    return "hi"
assert run_suite(suite, agent, home=sys.argv[2], run="b", k=count // tasks).successes == count
"""


def raw(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def zstd_bytes(folder: Path) -> int:
    codec = pa.Codec("zstd", 3)
    return sum(len(codec.compress(raw(p))) for p in folder.rglob("*") if p.is_file())


def run_bytes(home: Path, name: str) -> int:
    return sum(p.stat().st_size for p in (home / "runs" / name).rglob("*") if p.is_file())


def imported_bytes(folder: Path) -> int | None:
    with tempfile.TemporaryDirectory() as place:
        try:
            import_logs(folder, home=new_home(Path(place)), run="x")
        except EthogramError:  # no reader for it
            return None
        return run_bytes(Path(place), "x") or None


def small_chats(folder: Path, count: int) -> None:
    """Chats of two to six messages, a file each, with one system prompt."""
    rng = random.Random(3)

    def words(least: int, most: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))

    prompt = words(60, 60)
    for number in range(count):
        talk = [{"role": "system", "content": prompt}]
        for _ in range(rng.randint(1, 3)):
            talk.append({"role": "user", "content": words(5, 40)})
            talk.append({"role": "assistant", "content": words(10, 80)})
        (folder / f"{number:05d}.json").write_text(json.dumps({"messages": talk}))


def logs() -> bool:
    rows = []
    with tempfile.TemporaryDirectory() as made:
        small_chats(Path(made), 200 if QUICK else 2_000)
        corpora = sorted(p for p in DATA.iterdir() if p.is_dir()) if DATA.is_dir() else []
        for name, folder in [*((p.name, p) for p in corpora), ("small chats", Path(made))]:
            stored, packed = imported_bytes(folder), zstd_bytes(folder)
            if stored is not None:
                rows.append([name, packed, stored, stored / packed, "" if packed >= LEAST else "too small to claim"])
    table("imported logs", ["corpus", "zstd bytes", "stored bytes", "ratio", ""], rows)
    worst = max(r[3] for r in rows if r[1] >= LEAST)
    return verdict(f"at most twice the zstd of the raw logs (worst {worst:.2f}×)", worst <= 2)


def episodes() -> bool:
    count = 5_000 if QUICK else 50_000
    with tempfile.TemporaryDirectory() as home:
        child(NO_OP, str(count), home)
        stored = run_bytes(Path(home), "b")
    table("a run of no-op episodes", ["episodes", "stored bytes", "bytes each"], [[count, stored, stored / count]])
    return verdict(
        f"at most a fifth of JSON lines (1/{BEFORE / 50_000 / (stored / count):.1f})",
        stored / count <= BEFORE / 50_000 / 5,
    )


if __name__ == "__main__":
    held = [logs(), episodes()]
    sys.exit(0 if all(held) else 1)
