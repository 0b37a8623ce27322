"""The package is quiet: nothing heavy at import. What else its charter says is in tests/architecture/test_pure.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ethogram.statistics

FILES = sorted(Path(ethogram.statistics.__file__).parent.glob("*.py"))


def test_nothing_heavy_at_import() -> None:
    code = "import ethogram.statistics, sys\n"
    code += "print('numpy' in sys.modules, any(m.startswith('scipy') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "False"]


def test_the_modules_load_numpy_but_no_scipy() -> None:
    names = [f.stem for f in FILES if f.stem != "__init__"]
    code = f"import sys, importlib\nfor n in {names!r}: importlib.import_module('ethogram.statistics.' + n)\n"
    code += "print(any(m.startswith('scipy') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


def test_quantiles_do_not_load_scipy_stats() -> None:
    code = "import sys\nfrom ethogram.statistics import passk\n"
    code += (
        "passk.curve([1, 2], [4, 4], [1], 0.95, kind='hat', target='population')\nprint('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
