"""Four processes write one run, one of them is killed: `fleet.py HOME TESTS ROUNDS SEED`.

Every writer appends an episode to its own list only after the commit that holds it has returned. One JSON
line per round tells who was killed. Forked from one parent, so that each round costs no interpreter start.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[2])

import pyarrow as pa  # noqa: F401 - imported once, before the forks
import pyarrow.parquet as pq  # noqa: F401

from conftest import build_trace
from ethogram.store import Home, Limits, Policy, Redactor, Run
from ethogram.store.files import LocalFiles

WRITERS = 4
PLAIN = Redactor(b"a key for tests", Policy(kinds=()))


def steps_of(name: str) -> int:
    """How many steps a trace of this name has: a reader can tell whether it is whole."""
    return sum(name.encode()) % 9


def write(run: Run, number: int, seed: int, place: Path) -> None:
    """Write traces and list the committed ones until told to stop."""
    draw = random.Random(seed)
    limits = Limits(spill_spans=8, spill_chars=2500) if number % 2 else Limits()
    acknowledged = os.open(place / f"acknowledged-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writer = run.writer(PLAIN, window=0.02 if number == 3 else None, limits=limits)
    (place / f"ready-{number}").touch()
    made, parent = 0, os.getppid()
    while not (place / "stop").exists() and os.getppid() == parent:  # nobody writes on when the parent was ended
        names = [f"writer {number} trace {made + n}" for n in range(draw.randint(1, 4))]
        made += len(names)
        if draw.random() < 0.3:
            names.append(f"shared {draw.randint(0, 5)}")
        for name in names:
            build_trace(writer, name, steps=steps_of(name), words=f"words {draw.randint(0, 20)}", label=name)
        writer.commit()
        os.write(acknowledged, "".join(f"{name}\n" for name in names).encode())
    writer.close()


def round_(home: Home, number: int, draw: random.Random) -> dict[str, object]:
    """One round: start, wait, kill, stop."""
    run = home.create(f"round-{number:03d}", "import")
    place = Path(home.files.address) / "lists" / run.name
    place.mkdir(parents=True)
    seeds = [draw.getrandbits(32) for _ in range(WRITERS)]
    children = []
    for n in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                write(run, n, seeds[n], place)
            except BaseException as error:
                print(json.dumps({"failed": f"writer {n}: {error!r}"}), flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    until = time.monotonic() + 60
    while sum((place / f"ready-{n}").exists() for n in range(WRITERS)) < WRITERS:
        if time.monotonic() > until:
            for child in children:
                os.kill(child, signal.SIGKILL)
            raise SystemExit("a writer did not begin within a minute")
        time.sleep(0.002)
    victim, after = draw.randrange(WRITERS), draw.uniform(0.0, 0.5)
    time.sleep(after)
    os.kill(children[victim], signal.SIGKILL)
    time.sleep(0.1)
    (place / "stop").touch()
    ends = [os.waitpid(child, 0)[1] for child in children]
    return {"run": run.name, "victim": victim, "after": after, "ends": ends}


def main() -> None:
    """Run all rounds."""
    home = Home(LocalFiles(Path(sys.argv[1])))
    draw = random.Random(int(sys.argv[4]))
    for number in range(int(sys.argv[3])):
        print(json.dumps(round_(home, number, draw)), flush=True)


if __name__ == "__main__":
    main()
