"""A process that waits for its end is ended by a signal at whatever moment that arrives."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

from ethogram.wire.stopping import StopEvent, on_stop_signals

WAITS = """
import signal, sys, threading
from ethogram.wire.stopping import StopEvent
kind = {"ours": StopEvent, "plain": threading.Event}[sys.argv[1]]
current = kind()
signal.signal(signal.SIGALRM, lambda number, frame: current.set())
for i in range(100):
    current = kind()
    signal.setitimer(signal.ITIMER_REAL, 1e-6 + i % 20 * 1e-6)
    current.wait()
print("ended every time")
"""


def waits(kind: str, seconds: float) -> str:
    command = [sys.executable, "-c", WAITS, kind]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True).stdout.strip()
    except subprocess.TimeoutExpired:
        return "hangs"


def test_no_moment_of_a_signal_hangs_the_wait() -> None:
    """The same with `threading.Event` hangs within a few dozen signals: the reason for a class of our own."""
    assert waits("ours", 60) == "ended every time"
    assert waits("plain", 5) == "hangs"


def test_signals_are_taken_and_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    over = StopEvent()
    with on_stop_signals(over.set):
        assert not over.is_set()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        over.wait()
    assert over.is_set()
    assert over.signal == signal.SIGTERM, "the first one counts"
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_another_thread_ends_the_wait_without_a_signal() -> None:
    over = StopEvent()
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def other() -> None:
        with on_stop_signals(over.set):
            seen.append(signal.getsignal(signal.SIGTERM))
        time.sleep(0.05)
        over.set()

    thread = threading.Thread(target=other)
    thread.start()
    over.wait()
    thread.join(timeout=30)
    assert seen == [before], "only the main thread can take signals"
    assert over.signal == 0
