"""Sessions that another process stores: all that was handed over is kept, whatever becomes of either process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ethogram.errors import BadUsage, MachineFailure
from ethogram.store import open_home
from ethogram.traces import Message, Text
from ethogram.wire.session_remote import RemoteSessions


def test_words_that_not_every_format_holds_are_stored(tmp_path: Path) -> None:
    home = open_home(str(tmp_path))
    store = RemoteSessions(home, "calls", "gateway")
    session = store.session("shop", attempt=0)
    store.session("never called", attempt=0)
    secret = "sk-proj-" + "Ab3" * 14
    asked = [Message("user", (Text(f"half a \ud83d character, {secret}"),))]
    with session.record.model(input=asked, model="gpt-4o-mini", params={"seed": 1 << 80}) as call:
        call.done("large " * 500_000, input_tokens=5, output_tokens=2)
    session.trace.agent, session.trace.answer = "shopper", "large"
    session.facts = lambda: {"refused": "cap"}
    store.close()
    (trace,) = home.run("calls").traces()
    assert (trace.head.task, trace.head.agent, trace.answer) == ("shop", "shopper", "large")
    assert trace.head.meta["refused"] == "cap"
    (step,) = trace.steps
    assert (step.params["seed"], step.input_tokens) == (str(1 << 80), 5)
    words = [m.text for m in trace.conversation(step)]
    assert "half a \ufffd character" in words[0]
    assert secret not in words[0]
    with pytest.raises(BadUsage, match="is a gateway run"):
        RemoteSessions(home, "calls", "mcp")


KILLED = """
import os, signal, sys, time
from ethogram.wire.session_remote import RemoteSessions
from ethogram.store import open_home

store = RemoteSessions(open_home(sys.argv[1]), "calls", "gateway")
session = store.session("shop", attempt=0)
for turn in range(20):
    session.record.tool("stock", lambda item: "12", item=f"pear {turn}")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_handed_over_is_stored_where_the_other_process_is_killed(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    run = open_home(str(tmp_path)).run("calls")
    while time.monotonic() < until and not run.entries:
        time.sleep(0.1)
        run = open_home(str(tmp_path)).run("calls")
    (trace,) = run.traces()
    assert len(trace.steps) == 20


def test_a_process_that_can_store_no_more_is_told_of(tmp_path: Path) -> None:
    store = RemoteSessions(open_home(str(tmp_path)), "calls", "gateway")
    session = store.session("shop", attempt=0)
    os.kill(store._frames._process.pid, signal.SIGKILL)
    for turn in range(100):  # none of them waits, and none fails
        session.record.tool("stock", lambda item: "12" * 10_000, item=f"pear {turn}")
    with pytest.raises(MachineFailure, match="the process that stores calls failed"):
        store.close()
