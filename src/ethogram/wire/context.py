"""What work now belongs to: the recorder of an episode, the span inside it, and the version of its prompt.

All of it travels in context variables: tasks of an event loop inherit them, threads are given them (`carrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ethogram.capture.draft import Draft

    from .recorder import Recorder


class ForeignSpans(Protocol):
    """Spans of an episode that somebody else opens, such as the instrumentors of OpenTelemetry."""

    def current(self) -> str | None:
        """The id of the one that is open here, in the trace of the episode."""
        ...

    def recorded(self, draft: Draft) -> None:
        """A span of the recorder was added to the trace: it may be the same work as a foreign one."""
        ...


class Here(NamedTuple):
    """The span of a recorder that is open, and the foreign span that was open when it began."""

    span: str | None = None
    foreign: str | None = None


_recorder: ContextVar[Recorder | None] = ContextVar("ethogram_recorder", default=None)
_here: ContextVar[Here] = ContextVar("ethogram_span", default=Here())  # noqa: B039 - a tuple, which nobody changes
_prompt: ContextVar[str | None] = ContextVar("ethogram_prompt_version", default=None)


def current_recorder() -> Recorder | None:
    """The recorder of the episode that work now belongs to; None outside of every episode."""
    return _recorder.get()


def current_span(foreign: ForeignSpans | None = None) -> str | None:
    """The id of the innermost span that is open, ours or a foreign one."""
    here = _here.get()
    if foreign is None:
        record = _recorder.get()
        foreign = None if record is None else record.foreign
    other = None if foreign is None else foreign.current()
    return here.span if other is None or other == here.foreign else other


def open_here() -> Here:
    """The span of a recorder that is open, with the foreign span around it."""
    return _here.get()


def current_prompt_version() -> str | None:
    """The version of the prompt that the code around a model call states, if it does."""
    return _prompt.get()


class recording:
    """Work in this block, and in tasks and threads that it starts, belongs to an episode (to none, for None)."""

    __slots__ = ("_before", "_new")

    def __init__(self, record: Recorder | None) -> None:
        """A class, since every episode has such a block and a generator costs more."""
        self._new = record

    def __enter__(self) -> None:
        self._before = _recorder.set(self._new)

    def __exit__(self, *_: object) -> None:
        _recorder.reset(self._before)


@contextmanager
def within_span(span: str | None, foreign: str | None = None) -> Iterator[None]:
    """Work in this block belongs to a span; `foreign` is the foreign span that is open around it."""
    token = _here.set(Here(span, foreign))
    try:
        yield
    finally:
        _here.reset(token)


@contextmanager
def with_prompt_version(version: str | None) -> Iterator[None]:
    """Model calls in this block have a prompt of this version; None leaves what is stated further out."""
    if version is None:
        yield
        return
    token = _prompt.set(version)
    try:
        yield
    finally:
        _prompt.reset(token)


def carrier() -> Callable[[], AbstractContextManager[None]]:
    """What is going on now, for a thread, which begins without a context: call it there and work in its block."""
    record, span, prompt = _recorder.get(), current_span(), _prompt.get()

    @contextmanager
    def carry() -> Iterator[None]:
        with recording(record), within_span(span), with_prompt_version(prompt):
            yield

    return carry
