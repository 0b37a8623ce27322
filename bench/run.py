"""Run every benchmark and say which claims held: `make bench`, or `python bench/run.py --quick`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    scripts = sorted(p for p in HERE.glob("*.py") if not p.name.startswith("_") and p.name != "run.py")
    missed = [
        s.stem for s in scripts if subprocess.run([sys.executable, str(s), *sys.argv[1:]], check=False).returncode
    ]
    print(
        f"\n{len(scripts) - len(missed)} of {len(scripts)} benchmarks held"
        + (f"; missed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
