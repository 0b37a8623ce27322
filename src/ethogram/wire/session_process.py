"""A process that stores sessions: `python -m ethogram.wire.session_process`, started by `session_remote`.

It reads frames from its standard input: what it is to open, then what happens in sessions, as drafts with the words
still in them. Redaction, packing and storage happen here, so that the process that serves clients never waits for
them. At the end of its input, also where the other process was killed, it stores all it has and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, BinaryIO

import msgspec

from ethogram.capture.draft import Draft
from ethogram.errors import EthogramError
from ethogram.store import open_home

from .session_store import SessionStore, StoredSession

LENGTH_BYTES = 8
SWITCH_SECONDS = 0.0005
"""How long storing may keep the reading of frames waiting: the other process goes on meanwhile."""
NICER = 10
"""How much the process that serves clients goes before this one where both want a core."""


class Begin(msgspec.Struct, tag="begin"):
    """The first frame: where to store; the run is there already."""

    home: str
    run: str
    kind: str


class Opened(msgspec.Struct, tag="opened"):
    """A session begins; `session` is its number."""

    session: int
    task: str
    attempt: int


class Added(msgspec.Struct, tag="added"):
    """A span of a session has ended."""

    session: int
    draft: Draft


class SessionReply(msgspec.Struct, tag="told"):
    """What a session says of itself by now, beside its spans; nothing more comes of one that is `over`."""

    session: int
    agent: str
    answer: str | None
    meta: dict[str, Any]
    over: bool


Frame = Begin | Opened | Added | SessionReply
_decoder = msgspec.msgpack.Decoder(Frame)


def frame_of(stream: BinaryIO) -> Frame | None:
    """The next frame; None at the end, also where the last frame is not complete."""
    head = stream.read(LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    if len(head) < LENGTH_BYTES or len(body) < size:
        return None
    frame: Frame = _decoder.decode(body)
    return frame


def store_sessions(stream: BinaryIO) -> None:
    """Store what arrives until nothing more does."""
    first = frame_of(stream)
    if not isinstance(first, Begin):
        return
    store = SessionStore(open_home(first.home), first.run, first.kind)
    sessions: dict[int, StoredSession] = {}
    try:
        while (frame := frame_of(stream)) is not None:
            if isinstance(frame, Opened):
                sessions[frame.session] = store.session(frame.task, attempt=frame.attempt)
            elif isinstance(frame, Added):
                sessions[frame.session].trace.add(frame.draft)
            elif isinstance(frame, SessionReply):
                session = sessions[frame.session]
                session.trace.agent, session.trace.answer = frame.agent, frame.answer
                session.trace.meta.update(frame.meta)
                session.over = frame.over
                if frame.over:
                    del sessions[frame.session]
    finally:
        store.close()


def main() -> int:
    """Store until the input ends; signals of a terminal are for the other process, which then ends the input."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    os.nice(NICER)
    try:
        store_sessions(sys.stdin.buffer)
    except (EthogramError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
