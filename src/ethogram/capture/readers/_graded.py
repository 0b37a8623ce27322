"""What the readers of evaluation results share: one question, one answer, grades by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.parse import as_list, as_text, chat_message, from_json
from ethogram.traces import Message, Text

NAME = 80


def prompt_messages(prompt: Any) -> list[Message]:
    """The messages of a prompt: a list of chat messages (also as JSON text), else one message of the user."""
    chat = from_json(prompt) if isinstance(prompt, str) and prompt.lstrip().startswith("[") else prompt
    if isinstance(chat, dict) and isinstance(chat.get("messages"), list):
        chat = chat["messages"]
    if isinstance(chat, list) and chat and all(isinstance(m, dict) and "role" in m for m in chat):
        return [chat_message(m) for m in chat]
    return [Message("user", (Text(as_text(prompt)),))]


def add_exchange(trace: TraceBuilder, prompt: Any, answer: Any, *, tools: Iterable[Draft] = (), **details: Any) -> None:
    """A prompt, the tools that were called, and the answer; `details` are fields of the model's draft.

    Logs of graders give what was asked and what came back; the calls in between, if any, stand before the answer.
    """
    chat = ChatBuilder(trace, agent=trace.agent)
    for message in prompt_messages(prompt):
        chat.add(message)
    for tool in tools:
        trace.add(tool)
    if answer is not None:
        trace.answer = as_text(answer)
        chat.add(Message("assistant", (Text(trace.answer),)), **details)
    chat.close()


def add_grades(trace: TraceBuilder, grades: Iterable[Mapping[str, Any]], by: str) -> None:
    """One label per grade: `name`, `value` and `why`; those without a value are kept with their reason."""
    for grade in grades:
        value = grade.get("value")
        if not isinstance(value, bool | int | float | str):
            value = None
        trace.label(as_text(grade.get("name")) or "grade", value, by=by, why=as_text(grade.get("why")) or None)


def short_name(text: str) -> str:
    """A name that fits a table: the first line of a text, cut."""
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= NAME else f"{line[: NAME - 1]}…"


def texts_of(value: Any) -> list[str]:
    """The strings of a list."""
    return [as_text(v) for v in as_list(value)]
