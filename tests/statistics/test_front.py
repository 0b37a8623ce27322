"""The package is quiet: nothing heavy at import, every function says whose method it is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_only_special_functions_are_taken_from_scipy(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scipy"):
            assert (node.module, [a.name for a in node.names]) == ("scipy", ["special"])
        elif isinstance(node, ast.Import):
            assert not any(a.name.startswith("scipy") for a in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_functions_that_draw_take_a_generator(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "default_rng" not in text
    assert "np.random." not in text.replace("np.random.Generator", "")
