"""Store sessions in another process, so that storage does not delay the calls of clients.

What happens in a session is handed over as it is; the other process (`session_process`) redacts and stores it. Budgets
stay here: what a call used is settled before the next one is allowed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft, without_surrogates
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import MachineFailure, NeedsPosix
from ethogram.prices import CallPrices, Meter
from ethogram.store import Home
from ethogram.store.head_texts import name_of_words
from ethogram.store.redact import policy_from
from ethogram.traces import Head, Label, Origin, Ref, Span, SpanId, episode_id, text_ref, trace_id

from .recorder import Recorder
from .session_process import LENGTH_BYTES, Added, Begin, Frame, Opened, SessionReply
from .session_store import EVERY_SECONDS

MOST_WAITING = 256 << 20
"""Bytes that may wait for the other process; beyond, calls wait too, and nothing is lost."""
PIPE_BYTES = 1 << 20
GATHER_SECONDS = 0.01
"""How long frames are gathered before they are written; what was gathered is lost where this process is killed."""
LARGEST = 1 << 63
LATELY_SECONDS = 5.0
"""A session that rests for longer has nothing new to say of itself."""

_encoder = msgspec.msgpack.Encoder()


class RemoteSessions:
    """Sessions of a run that another process stores; `SessionStore` is the same in this process."""

    def __init__(
        self, home: Home, name: str, kind: str, *, redact: str = "default", plan: dict[str, Any] | None = None
    ) -> None:
        """Open the run, or make it, and start the process; raises `BadUsage` where the name is of another kind."""
        self.run, _ = home.run_of_kind(name, kind, redaction=redact, plan=plan or {})
        self.kind = kind
        self._redactor = home.redactor(policy_from(self.run.info.redaction))
        self._numbers = count()
        self._sessions: list[RemoteSession] = []
        self._frames = _Frames()
        self._frames.send(Begin(home.files.reach, self.run.name, kind))
        self._closed = threading.Event()
        self._telling = threading.Thread(target=self._tell_now_and_then, name="gateway facts", daemon=True)
        self._telling.start()

    def session(
        self, task: str, *, attempt: int, meter: Meter | None = None, prices: CallPrices | None = None
    ) -> RemoteSession:
        """A new session; `task` is what its trace is listed under."""
        opened = Opened(next(self._numbers), task, attempt)
        session = RemoteSession(SentTrace(self, opened, self._frames.send), opened.session, meter, prices)
        self._sessions.append(session)
        return session

    def named(self, words: str) -> str:
        """A name made of words of a call, as the process that stores would make it."""
        return name_of_words(words, self._redactor, sealed=self.run.keys.active() is not None)

    def close(self) -> None:
        """Hand over what every session says at its end, and wait until all is stored; raises where that failed."""
        self._closed.set()
        self._telling.join()
        for session in self._sessions:
            session.over = True
        self._tell()
        self._frames.close()

    def _tell_now_and_then(self) -> None:
        while not self._closed.wait(EVERY_SECONDS):
            self._tell()

    def _tell(self) -> None:
        lately = time.monotonic() - LATELY_SECONDS
        told = [one for one in list(self._sessions) if one.over or one.trace.touched > lately]
        for session in [one for one in told if one.tell(self._frames.send)]:
            self._sessions.remove(session)


class RemoteSession:
    """The trace of one session while it grows elsewhere."""

    def __init__(self, trace: SentTrace, number: int, meter: Meter | None, prices: CallPrices | None) -> None:
        """Made by `RemoteSessions.session`."""
        self.trace = trace
        self.record = Recorder(trace, meter, prices=prices)
        self.facts: Callable[[], dict[str, str]] = dict
        """What the trace says of itself by now, beside its spans."""
        self.over = False
        """Whether nothing more comes."""
        self._number = number
        self._told: SessionReply | None = None

    def tell(self, send: Callable[..., None]) -> bool:
        """Send what the trace says of itself, if it has begun and that is new; gives whether the session is over."""
        told = SessionReply(
            self._number, self.trace.agent, self.trace.answer, {**self.trace.meta, **self.facts()}, self.over
        )
        if self.trace.spans and told != self._told:
            self._told = told
            send(told)
        return told.over


class SentTrace(TraceBuilder):
    """A trace whose spans are sent to another process as they are."""

    def __init__(self, sessions: RemoteSessions, opened: Opened, send: Callable[..., None]) -> None:
        """`opened` tells of its session; it is sent with the first span, for a session without any is none."""
        kind, run, key = sessions.kind, sessions.run.name, secrets.token_hex(8)
        intake = Intake(lambda trace: _NOWHERE, Origin(kind, opened.task), SourceReport(source=kind))
        super().__init__(intake, trace_id(kind, run, key), episode_id(kind, run, key))
        self.touched = time.monotonic()
        """When it last grew, or was asked to."""
        self._opened = opened
        self._send = send

    def add(self, draft: Draft) -> SpanId:
        """Send a span; gives the id that it has."""
        if draft.span_id is None:
            draft.span_id = f"s{self.spans}"
        added = Added(self._opened.session, draft)
        self._send(added) if self.spans else self._send(self._opened, added)
        self.spans += 1
        self.model_calls += draft.kind == "model"
        self.touched = time.monotonic()
        return SpanId(draft.span_id)


class _Nowhere:
    """The sink of a trace that is stored by another process: nothing arrives here."""

    idle = True

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        return text_ref(body)

    def clean(self, value: str, field: str) -> str:
        return value

    def named(self, words: str) -> str:
        return words

    def span(self, span: Span) -> None: ...

    def finish(self, head: Head, labels: Sequence[Label]) -> None: ...

    def abort(self) -> None: ...


_NOWHERE = _Nowhere()


class _Frames:
    """Frames on their way to the other process.

    The sender writes too, a few frames at once: to wake a thread costs more than to write, and the thread would
    compete with the one that serves. What the pipe does not take waits for a thread that writes it later.
    """

    def __init__(self) -> None:
        NeedsPosix.check("the gateway")  # for its pipe, which must not block
        line = [sys.executable, "-m", "ethogram.wire.session_process"]
        # of its own group, so that Ctrl-C reaches only us: the end of its input is the end of it
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        with suppress(AttributeError, OSError):  # not on every system, nor for everybody
            import fcntl

            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._gathered: list[bytes] = []
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._over = False
        self._broken = False
        self._changed = threading.Condition()
        self._writing = threading.Thread(target=self._write_later, name="gateway frames", daemon=True)
        self._writing.start()

    def send(self, *frames: Frame) -> None:
        """Send frames, after those before them; what the other process can no longer take is dropped, see `close`."""
        data = b"".join(map(_framed, frames))
        with self._changed:
            while self._size > MOST_WAITING and not self._broken:
                self._changed.wait(1.0)
            self._gathered.append(data)
            self._size += len(data)
            if len(self._gathered) > 1:
                return
        try:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._flush)
        except RuntimeError:  # a thread without a loop
            self._flush()

    def _flush(self) -> None:
        """Write what was gathered, as far as the pipe takes it."""
        with self._changed:
            data = memoryview(b"".join(self._gathered))
            self._gathered.clear()
            rest = data if self._waiting else data[self._written(data) :]
            self._size -= len(data) - len(rest)
            if rest and not self._broken:
                self._waiting.append(rest)
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until everything is written and stored; raises `MachineFailure` where it was not."""
        self._flush()
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._writing.join()
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        said = self._process.stderr.read().decode("utf-8", "replace").strip()
        self._process.stderr.close()
        if self._process.wait() or self._broken:
            why = said.splitlines()[-1] if said else "it was ended from outside"
            raise MachineFailure(f"the process that stores calls failed, and what was not stored is lost: {why}")

    def _written(self, data: memoryview) -> int:
        """How much of it the pipe takes now."""
        try:
            return os.write(self._pipe, data)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken = True
            return 0

    def _write_later(self) -> None:
        """Write what waits, until nothing more comes."""
        while True:
            with self._changed:
                while not self._waiting and not self._over and not self._broken:
                    self._changed.wait()
                if not self._waiting or self._broken:
                    return
                written = self._written(self._waiting[0])
                self._size -= written
                self._waiting[0] = self._waiting[0][written:]
                if not self._waiting[0]:
                    self._waiting.popleft()
                self._changed.notify_all()
            if not written:
                select.select([], [self._pipe], [], 1.0)


def _framed(frame: Frame) -> bytes:
    try:
        body = _encoder.encode(frame)
    except (OverflowError, UnicodeEncodeError):
        body = _encoder.encode(_storable(msgspec.to_builtins(frame)))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _storable(value: Any) -> Any:
    """A value as every reader can hold it: without half characters, and large numbers as text."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_storable(name): _storable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(one) for one in value]
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        return str(value)
    return value
