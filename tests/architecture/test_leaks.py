"""A test that leaves a socket open fails in its own file, also where the garbage is collected in another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEAKS = """
import asyncio, gc, socket

def test_leaves_a_transport_open():
    gc.disable()  # so that it is not found by chance
    with socket.create_server(("127.0.0.1", 0)) as server:
        loop = asyncio.new_event_loop()
        connecting = loop.create_connection(asyncio.Protocol, *server.getsockname())
        loop.run_until_complete(connecting)
        loop.close()
"""
STRANGER = """
import gc

def test_has_nothing_to_do_with_it():
    gc.collect()
"""


def test_a_socket_left_open_fails_the_file_that_opened_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_a.py").write_text(LEAKS)
    (tmp_path / "test_b.py").write_text(STRANGER)
    line = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-rA", "-q"]
    told = subprocess.run([*line, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, timeout=120).stdout
    assert "ERROR test_a.py::test_leaves_a_transport_open" in told
    assert "PASSED test_b.py::test_has_nothing_to_do_with_it" in told
    assert "1 error" in told
