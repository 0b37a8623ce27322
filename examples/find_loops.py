"""Which runs call the same tool with the same arguments three times or more in a row?

python examples/find_loops.py [LOGS]      any folder of logs; without one, the demonstration's
"""

from __future__ import annotations

import sys
import tempfile
from itertools import groupby
from pathlib import Path

import ethogram as eth
from ethogram.worlds.demo import copy_demo_logs


def main() -> None:
    """Import, then walk over the steps of every trace."""
    with tempfile.TemporaryDirectory() as home:
        logs = sys.argv[1] if len(sys.argv) > 1 else copy_demo_logs(Path(home) / "logs").folder
        eth.import_logs(logs, run="loops", home=home)
        for trace in eth.load("loops", home=home).traces():
            calls = [(s.tool, s.arguments) for s in trace.steps if s.kind == "tool"]
            for (tool, arguments), group in groupby(calls):
                times = len(list(group))
                if times >= 3 and arguments is not None:
                    print(f"task {trace.head.task} attempt {trace.head.attempt}: {tool} {times} times,", end=" ")
                    print(f"with {trace.text(arguments)}")


if __name__ == "__main__":
    main()
