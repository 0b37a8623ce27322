"""Claims: d_norm with its edits at least 1 000 times faster than a plain table in Python at 500 steps; `diverge` of two
readings within 3 times `edits` of their step lists from 500 steps on, with one lane and with three; all 4 950 pairs of 100 traces of 200 steps within 0.3 s of CPU; pairs of 5 000 steps in bounded memory; the permutation test of 50 tasks
with 10 runs a side and 10 000 deals within a second of CPU. Also shown: a stored run read by columns, and the noise floor
that is kept with a run against one that is computed anew."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from _common import QUICK, child, cpu, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict

from ethogram.measures.divergence import diverge
from ethogram.measures.noise_floor import NoiseFloor
from ethogram.measures.sequence import Reading, read_positions
from ethogram.questions.divergence import floors
from ethogram.questions.divergence.question import divergence
from ethogram.questions.divergence.step_sequences import ReadingOptions, by_version, listed, load_readings
from ethogram.statistics.distance import Alphabet, align, count_edits, edits, pairwise
from ethogram.statistics.twosample import TaskSample, compare_samples
from ethogram.store import DERIVED, Run


def plain_table(a: Sequence[str], b: Sequence[str]) -> tuple[int, int, int]:
    """Wagner and Fischer with backtracking, as one writes it down."""
    rows = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        rows[i][0] = i
    for j in range(len(b) + 1):
        rows[0][j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                rows[i][j] = rows[i - 1][j - 1]
            else:
                rows[i][j] = 1 + min(rows[i - 1][j], rows[i][j - 1], rows[i - 1][j - 1])
    i, j, counted = len(a), len(b), Counter[str]()
    while i or j:
        if i and j and a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
        elif i and j and rows[i][j] == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            counted["~"] += 1
        elif j and rows[i][j] == rows[i][j - 1] + 1:
            j -= 1
            counted["+"] += 1
        else:
            i -= 1
            counted["-"] += 1
    return counted["~"], counted["+"], counted["-"]


def traces(steps: int, count: int, seed: int) -> list[list[str]]:
    """Variations of one plan: steps replaced, dropped and added, about 40 % of them."""
    rng = random.Random(seed)
    kinds = [f"tool:{i}" for i in range(25)]
    plan = [rng.choice(kinds) for _ in range(steps)]
    found = []
    for _ in range(count):
        run = []
        for step in plan:
            chance = rng.random()
            if chance > 0.13:
                run.append(rng.choice(kinds) if chance < 0.26 else step)
            if chance > 0.87:
                run.append(rng.choice(kinds))
        found.append((run + [rng.choice(kinds) for _ in range(steps)])[:steps])
    return found


def many(function: object, repeats: int) -> float:
    assert callable(function)
    return cpu(lambda: [function() for _ in range(repeats)])[0] / repeats


def pairs() -> bool:
    rows, held = [], True
    for steps in (50, 500) if QUICK else (50, 500, 5000):
        a, b = traces(steps, 2, steps)
        one, two = (lambda letters: (letters.word(a), letters.word(b)))(Alphabet())
        slow, found = cpu(lambda: plain_table(a, b), 1 if steps > 500 else 3)
        fast = many(lambda: edits(one, two), max(1, 20_000 // steps))
        ruled = many(lambda: count_edits(align(one, two)), max(1, 2000 // steps))
        whole = many(lambda: edits(a, b), max(1, 20_000 // steps))
        assert edits(one, two).distance == sum(found)
        assert count_edits(align(one, two)).distance == sum(found)
        rows.append([steps, slow, fast, slow / fast, whole, slow / whole, ruled, slow / ruled])
        if steps == 500:
            said = f"at least 1 000 times faster at 500 steps ({slow / fast:,.0f}×, of lists {slow / whole:,.0f}×)"
            held = verdict(said, min(slow / fast, slow / whole) >= 1000)
    columns = ["steps", "plain table s", "edits s", "ratio", "of lists s", "ratio", "align s", "ratio"]
    table("one pair: distance and edits", columns, rows)
    return held


def whole_pairs() -> bool:
    """`diverge` of two readings against `edits` of the same two lists; what its alignment adds when asked for."""
    rows, ratios = [], []
    for steps in (500, 2000) if QUICK else (500, 1000, 2000, 5000):
        a, b = traces(steps, 2, steps)
        for lanes in (1, 3):
            one, two = (reading(x, lanes) for x in (a, b))
            repeats = max(1, 20_000 // steps)
            bare = many(lambda a=a, b=b: edits(a, b), repeats)
            whole = many(lambda one=one, two=two: diverge(one, two), repeats)
            aligned = many(lambda one=one, two=two: diverge(one, two).edits, max(1, repeats // 10))
            ratios.append(whole / bare)
            rows.append([steps, lanes, bare, whole, whole / bare, aligned, aligned / bare])
    columns = ["steps", "lanes", "edits s", "diverge s", "ratio", "with alignment s", "ratio"]
    table("one pair: diverge of readings", columns, rows)
    return verdict(f"diverge within 3 times edits, 500 steps and more (at most {max(ratios):.1f}×)", max(ratios) <= 3)


def reading(signatures: list[str], lanes: int) -> Reading:
    """A reading of tool steps that are dealt to some lanes in turn."""
    n = len(signatures)
    dealt = tuple(f"lane {i % lanes}" for i in range(n))
    return Reading(tuple(signatures), ("tool",) * n, tuple(signatures), (False,) * n, ("",) * n, dealt)


def memory() -> bool:
    """Peak memory of a fresh process that aligns a pair, beside one that only imports."""
    code = """
import sys, random
from ethogram.statistics.distance import align, edits
n = int(sys.argv[1])
rng = random.Random(1)
words = ["".join(chr(300 + rng.randrange(25)) for _ in range(n)) for _ in range(2)]
if n:
    edits(*words); align(*words)
# the peak of this program alone: that of `getrusage` remembers the one that started it
OUT = {"peak_mb": int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024}
"""
    empty = child(code, "0")
    rows = []
    for steps in (5000,) if QUICK else (5000, 10_000):
        full = child(code, str(steps))
        cells = (steps + 1) ** 2 * 8 / 2**20  # one pointer per cell
        rows.append([steps, full["peak_mb"] - empty["peak_mb"], cells, full["cpu_s"] - empty["cpu_s"]])
    table("memory of one pair", ["steps", "MB above import", "MB of a plain table, at least", "CPU s"], rows)
    return verdict(f"5 000 steps within 50 MB ({rows[0][1]:.0f} MB)", rows[0][1] < 50)


def all_pairs() -> bool:
    letters = Alphabet()
    words = [letters.word(t) for t in traces(200, 100, 1)]
    spent, found = cpu(lambda: pairwise(words))
    assert found.shape == (100, 100)
    return verdict(f"4 950 pairs of 200 steps in under 0.3 s of CPU ({spent:.3f} s)", spent < 0.3)


def permutations() -> bool:
    rng = np.random.default_rng(1)
    samples = []
    for t in range(50):
        letters = Alphabet()
        runs = traces(20, 20, t)
        counts = [Counter(r) for r in runs]
        kinds = sorted(set().union(*counts))[:20]
        features = np.log1p([[len(r), *(c[k] for k in kinds)] for r, c in zip(runs, counts, strict=True)])
        samples.append(TaskSample(pairwise([letters.word(r) for r in runs]), features, np.arange(20) >= 10))
    spent, found = cpu(lambda: compare_samples(samples, 10_000, rng))
    assert 0 < found.energy_p <= 1
    said = f"50 tasks × 10 × 10, 10 000 deals, distances and 21 features, in under 1 s of CPU ({spent:.2f} s)"
    return verdict(said, spent < 1.0)


def stored() -> bool:
    """A stored run: readings from columns against readings from traces, and the whole verb."""
    count = 100 if QUICK else 500
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder) / "home")
        for name in ("base", "cand"):
            with plain_writer(home, name) as writer:
                for trace in range(count):
                    sink = writer.trace(synthetic_head(trace).trace_id)
                    for span in synthetic_spans(trace, 100):
                        sink.span(span)
                    sink.finish(synthetic_head(trace), ())
        run, how = home.run("base"), ReadingOptions()
        columns, loaded = cpu(lambda: load_readings(run, how))
        whole, _ = cpu(lambda: [read_positions(run.trace(e)) for e in run.entries], 1)
        asked, _ = cpu(lambda: divergence("cand", "base", home=home), 1)
        steps = sum(len(e.reading) for v in loaded.tasks.values() for e in v)
    table(
        "a stored run",
        ["traces", "steps", "from columns s", "from traces s", "ratio", "divergence --against s"],
        [[count, steps, columns, whole, whole / columns, asked]],
    )
    return verdict(f"columns are faster than traces ({whole / columns:.0f}×)", columns < whole)


def floor_of_run(run: Run) -> NoiseFloor:
    """From the record of a run if it has one; no trace is read then."""
    how = ReadingOptions()
    groups = [g for episodes in listed(run).tasks.values() for g in by_version(episodes)]
    record = floors.kept_floor(run, groups, how)
    if record is not None:
        return record.noise_floor
    groups = [g for episodes in load_readings(run, how).tasks.values() for g in by_version(episodes)]
    return floors.floor_of(groups, floors.own_distances(run, groups, how))


def kept_floor() -> bool:
    """The floor of 50 tasks × 20 repeats: computed from the columns, and read from the record that lies with the run."""
    rows, held = [], True
    for steps in (40,) if QUICK else (40, 200):
        with tempfile.TemporaryDirectory() as folder:
            home = new_home(Path(folder) / "home")
            with plain_writer(home, "base") as writer:
                for trace in range(1000):
                    sink = writer.trace(synthetic_head(trace).trace_id)
                    for span in synthetic_spans(trace, steps - trace % 7):
                        sink.span(span)
                    sink.finish(synthetic_head(trace), ())
            run = home.run("base")
            assert run.entries  # the ledger is read once, as in a gate

            def anew(run: Run = run) -> object:
                run.files.delete(f"{run.path}/{DERIVED}")
                return floor_of_run(run)

            slow, computed = cpu(anew)
            fast, found = cpu(lambda run=run: floor_of_run(run))
            assert found == computed
            rows.append([found.tasks, found.runs, steps, slow, fast, slow / fast])
            held = held and fast < slow
    table("noise floor", ["tasks", "runs", "steps", "computed and stored s", "from the record s", "ratio"], rows)
    return verdict(f"a floor that is kept takes less CPU ({rows[-1][-1]:.0f}×)", held)


def main() -> bool:
    return all([pairs(), whole_pairs(), memory(), all_pairs(), permutations(), stored(), kept_floor()])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
