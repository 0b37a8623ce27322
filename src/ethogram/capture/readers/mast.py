"""MAST experiments with AG2: `{instance_id, problem_statement, other_data, trajectory, note}`.

The log was written from the asking side: there the proxy that asks has the role `assistant`, and the solver,
the agent under study, has the role `user`. Both are turned round here. Content is a list of lines. What the proxy
answers to code is what the code gave when it was run: the result of a tool, named after the code's language.
"""

from __future__ import annotations

import re
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text, flat_text
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, Text, ToolCall, ToolResult, begins_as_error

from ._shared import add_tool, as_listing, as_object, verdict

FORMAT = "mast"
_ELSEWHERE = {"instance_id", "problem_statement", "other_data", "trajectory", "note", "seed"}
MARKS = frozenset(["problem_statement"])
_BLOCK = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n(.*?)\r?\n[ \t]*```", re.DOTALL)
_NOT_RUN = re.compile(r"\s*Continue\. Please keep solving")
_TRACEBACK = "Traceback (most recent call last)"
_EXIT = re.compile(r"\s*exitcode: (?!0\b)")


def sniff(peek: Peek) -> int:
    """A problem statement and a trajectory of named speakers."""
    first = peek.first
    if not {"instance_id", "problem_statement", "trajectory"} <= first.keys():
        return 0
    steps = as_list(first["trajectory"])
    return 94 if not steps or {"content", "role"} <= as_dict(steps[0]).keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per document, element or line."""
    for where, item in records(source, intake):
        with intake.record(where):
            _read_one(as_object(item, "the experiment"), where, intake)


def _read_one(item: dict[str, Any], where: str, intake: Intake) -> None:
    steps = as_listing(item.get("trajectory"), "trajectory")
    other = as_dict(item.get("other_data"))
    seed = as_int(item.get("seed", other.get("seed")))
    name = as_name(item.get("instance_id"))
    with intake.trace(name if seed is None else f"{name}/{seed}") as trace:
        trace.task = name
        trace.seed = seed
        trace.outcome = verdict(other.get("correct"), "other_data.correct")
        trace.answer = lines_text(other["given"]) if other.get("given") is not None else None
        trace.meta = {
            **{k: v for k, v in item.items() if k not in _ELSEWHERE},
            **{k: v for k, v in other.items() if k not in ("correct", "given", "answer", "seed")},
            "expected": as_text(other["answer"]) if other.get("answer") is not None else None,
            "problem_statement": lines_text(item.get("problem_statement")) or None,
        }
        unread: list[Message] = []
        asked: list[ToolCall] = []
        for position, step in enumerate(steps):
            with intake.record(f"{where}, step {position}"):
                _add_step(trace, as_object(step, "the step"), unread, asked)
        _add_note(trace, as_dict(item.get("note")))


def _add_step(trace: TraceBuilder, step: dict[str, Any], unread: list[Message], asked: list[ToolCall]) -> None:
    """A step of the solver is a model span that reads what was said since its last one; the answer to code in it is a
    tool span."""
    name = as_name(step.get("name"))
    content = lines_text(step.get("content"))
    attributes = {k: v for k, v in step.items() if k not in ("content", "name") and v is not None}
    if step.get("role") == "user":
        asked[:] = _code_in(content)
        message = Message("assistant", (Text(content),), name or None)
        trace.add(
            Draft(
                kind="model",
                name="chat",
                agent=name,
                input=tuple(unread),
                growing=True,
                output=(message,),
                attributes=attributes,
            )
        )
        trace.agent = trace.agent or name
        unread.clear()
        return
    call = asked.pop() if asked and not _NOT_RUN.match(content) else None
    asked.clear()
    if call is not None:
        message = Message("tool", (ToolResult(content, call.name, failed=_failed(content)),), name or None)
        add_tool(trace, call, message, agent=trace.agent, attributes=attributes)
    else:
        message = Message("system" if step.get("role") == "system" else "user", (Text(content),), name or None)
        trace.add(Draft(kind="user", name=name or "user", output=(message,), attributes=attributes))
    unread.append(message)


def _code_in(content: str) -> list[ToolCall]:
    """One call that stands for all blocks of code in a message: the proxy answers them together."""
    blocks = _BLOCK.findall(content)
    return [ToolCall(blocks[0][0].lower() or "python", "\n".join(code for _, code in blocks))] if blocks else []


def _failed(content: str) -> bool:
    return begins_as_error(content) or _TRACEBACK in content or _EXIT.match(content) is not None


def _add_note(trace: TraceBuilder, note: dict[str, Any]) -> None:
    """Failure modes that a person marked; all `no` means that nobody looked, so that says nothing."""
    options = as_dict(note.get("options"))
    words = lines_text(note.get("text"))
    if any(str(value).lower() == "yes" for value in options.values()):
        for mode, value in options.items():
            trace.label(mode, str(value).lower() == "yes", by=FORMAT, source="hand", why=words or None)
    elif words:
        trace.label("note", None, by=FORMAT, source="hand", why=words)
    elif options:
        trace.meta["annotated"] = False


def lines_text(value: Any) -> str:
    """The text of a list of lines, whether or not they bring their line breaks."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value) if any(line.endswith("\n") for line in value) else "\n".join(value)
    return value if isinstance(value, str) else flat_text(value)
