"""Every example runs as it is, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "cost_worked_example.py": "break-even: routed runs must resolve at least 21.6%",
    "find_loops.py": "task 2 attempt 0: find_bookings 4 times, with",
    "without_a_store.py": "claude-code: 1 traces, 19 spans, lost {'thinking signature': 1}",
}


def test_every_example_runs(tmp_path):
    assert {p.name for p in EXAMPLES.glob("*.py")} == SAYS.keys()
    for name, words in SAYS.items():
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / name)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=240,
        )
        assert (done.returncode, done.stderr) == (0, ""), name
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_mcp_client_sells_through_the_proxy(tmp_path):
    folder = EXAMPLES / "mcp"
    proxy = [sys.executable, "-m", "ethogram.cli.main", "mcp", "--"]
    command = [sys.executable, str(folder / "shop_client.py"), "pear", "3", *proxy, sys.executable]
    done = subprocess.run(
        [*command, str(folder / "shop_server.py")], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.stdout.splitlines() == ["tools: stock, sell", "stock: 12 of pear", "sold:  9 of pear"]
    assert (done.returncode, "nothing was recorded" in done.stderr) == (0, True)
    assert list(tmp_path.iterdir()) == []
