"""Which libraries a command loads: looking at a small home must not cost more than it has to."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numpy", "scipy", "pyarrow", "pandas", "duckdb", "pydantic", "genai_prices", "rapidfuzz", "httpx", "yaml"}


def loaded(*args: str) -> set[str]:
    """Modules in memory after a verb has printed its answer."""
    code = (
        "import sys; from ethogram.cli.main import run_verb; code = run_verb(sys.argv[1:]); "
        "print('\\n@@', *sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.partition("\n@@")[2].split())


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_runs_and_show_load_no_arrays_tables_or_prices(call, log, more):
    call("import", "desk.json", "--run", "night")
    assert "pandas" not in loaded("show", "night")  # prices the episodes and keeps what it found
    for args in (["runs"], ["show", "night"]):
        assert loaded(*args, *more) & HEAVY == set()


def test_stats_loads_what_it_computes_with(call, log):
    call("import", "desk.json", "--run", "night")
    got = loaded("stats", "night")
    assert got & {"pandas", "duckdb", "pydantic", "genai_prices", "rapidfuzz"} == set()
    assert got & {"pyarrow.compute", "pyarrow.dataset", "scipy.stats"} == set()
    assert "scipy.special" in got
    assert got & {"numpy.f2py", "numpy.testing"} == set()


def test_no_answer_loads_pandas(call, log, tmp_path):
    """Arrow imports it, half a second long, as soon as one of its functions is given a plain Python value."""
    call("import", "desk.json", "--run", "night")
    code = (
        "import shlex, sys\n"
        "from ethogram.cli.main import run_verb\n"
        "for words in sys.argv[1:]:\n"
        "    assert run_verb(shlex.split(words)) in (0, 2), words\n"
        "    assert 'pandas' not in sys.modules, words\n"
    )
    verbs = (
        "stats night",
        "field night",
        "divergence night",
        "why night",
        "cost night",
        "plan night --drop 0.15",
        "diff 0/0 1/0 --run night",
        f"export night --to csv -o {tmp_path}/tables",
        f"report night -o {tmp_path}/night.html",
        "sql 'SELECT count(*) FROM metrics'",
    )
    done = subprocess.run([sys.executable, "-c", code, *verbs], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_numpy_is_whole_again_after_scipy_was_imported():
    code = (
        "import numpy; before = sorted(dir(numpy)), numpy.__all__; from ethogram.statistics._numeric import special; "
        "assert special().ndtri(0.5) == 0; assert (sorted(dir(numpy)), numpy.__all__) == before; "
        "assert numpy.ma.array([1]).sum() == 1; from numpy import *; assert testing.assert_equal(1, 1) is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
