"""The messages that a model span read and wrote, in any dialect; where several are given, the newest dialect counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_list, as_name, as_text, role
from ethogram.traces import Message, Text

from .messages import decoded_json, message_of, message_parts, messages_in_json, messages_of
from .span_attributes import Bag
from .spans import RawEvent

_SPEAKERS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_PROMPT = "gen_ai.content.prompt"
_COMPLETION = "gen_ai.content.completion"
_RAW_INPUT = (
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
    "mlflow.spanInputs",
    "gen_ai.prompt",
    "ai.prompt",
    "gcp.vertex.agent.llm_request",
)
_RAW_OUTPUT = (
    "output.value",
    "langfuse.observation.output",
    "traceloop.entity.output",
    "mlflow.spanOutputs",
    "gen_ai.completion",
    "gcp.vertex.agent.llm_response",
)


RAW_KEYS = frozenset([*_RAW_INPUT, *_RAW_OUTPUT, "input.mime_type", "output.mime_type"])
_INSTRUCTIONS = frozenset(["gen_ai.system_instructions"])
_MESSAGE_KEYS = frozenset(["gen_ai.input.messages", "gen_ai.output.messages"])
_AI_SDK = frozenset(["ai.prompt.messages", "ai.response.text", "ai.response.toolCalls"])
_PLAIN_KEYS = frozenset(["llm.prompts", "llm.choices"])
_PACKED = frozenset(["events"])


class Talk(msgspec.Struct):
    """One side of a model call: its messages, the events that were not used, and how often it was said again.

    A dialect whose names no span of this shape has is not asked; all others are consumed.
    """

    messages: list[Message]
    events: list[RawEvent]
    again: int = 0
    stop: str = ""

    def say(self, messages: list[Message]) -> None:
        """What one dialect says: the first that says something counts, others say it again."""
        if messages and self.messages:
            self.again += 1
        elif messages:
            self.messages = messages


def take_input(bag: Bag, events: Sequence[RawEvent]) -> Talk:
    """What the model read."""
    heard, left = _split(bag, events, lambda e: e.name in _SPEAKERS or e.name == _PROMPT)
    talk = Talk([], left)
    if bag.shape.has(_MESSAGE_KEYS):
        talk.say(messages_of(bag.take("gen_ai.input.messages"), "user"))
    if heard:
        talk.say([m for e in heard for m in _heard(e)])
    if bag.shape.lists:
        talk.say([message_of(as_dict(i), "user") for i in bag.indexed("gen_ai.prompt")])
        talk.say([_openinference(i, "user") for i in bag.indexed("llm.input_messages")])
    if bag.shape.lists or bag.shape.has(_PLAIN_KEYS):
        talk.say(_texts(bag, "llm.prompts", "prompt", "user"))
    if bag.shape.has(_AI_SDK):
        talk.say(messages_of(bag.take("ai.prompt.messages"), "user"))
    if not talk.messages and bag.shape.has(RAW_KEYS):
        talk.messages = _raw(bag, _RAW_INPUT, "user")
    if bag.shape.has(_INSTRUCTIONS) and (parts := message_parts(decoded_json(bag.take("gen_ai.system_instructions")))):
        system = [Message("system", tuple(parts))]
        if talk.messages[:1] != system:
            talk.messages = [*system, *talk.messages]
    return talk


def take_output(bag: Bag, events: Sequence[RawEvent]) -> Talk:
    """What the model wrote, and why it stopped where the messages say so."""
    heard, left = _split(bag, events, lambda e: e.name in ("gen_ai.choice", _COMPLETION))
    talk = Talk([], left)
    said: list[Any] = []
    if bag.shape.has(_MESSAGE_KEYS):
        written = bag.take("gen_ai.output.messages")
        said += as_list(decoded_json(written))
        talk.say((messages_in_json(written, "assistant") if said else None) or messages_of(said, "assistant"))
    if heard:
        talk.say([m for e in heard for m in _heard(e)])
        said += [e.attributes for e in heard]
    if bag.shape.lists:
        completions = bag.indexed("gen_ai.completion")
        talk.say([message_of(as_dict(i), "assistant") for i in completions])
        talk.say([_openinference(i, "assistant") for i in bag.indexed("llm.output_messages")])
        said += completions
    if bag.shape.lists or bag.shape.has(_PLAIN_KEYS):
        talk.say(_texts(bag, "llm.choices", "completion", "assistant"))
    if bag.shape.has(_AI_SDK):
        talk.say(_ai_sdk(bag))
    if not talk.messages and bag.shape.has(RAW_KEYS):
        said.append(decoded_json(next((bag.rest[k] for k in _RAW_OUTPUT if k in bag), None)))
        talk.messages = _raw(bag, _RAW_OUTPUT, "assistant")
    talk.stop = next((stop for item in said if (stop := _stop(item))), "")
    return talk


def exact(bag: Bag, key: str) -> list[Message]:
    """Messages of our own writer: nothing is guessed."""
    items = [as_dict(m) for m in as_list(bag.take(key))]
    return [
        Message(role(m.get("role")), tuple(message_parts(m.get("parts"))), as_name(m.get("name")) or None)
        for m in items
    ]


def _split(
    bag: Bag, events: Sequence[RawEvent], wanted: Callable[[RawEvent], bool]
) -> tuple[list[RawEvent], list[RawEvent]]:
    """Events that speak and events that do not; pydantic-ai keeps its events in an attribute, which is read too."""
    if not events and not bag.shape.has(_PACKED):
        return [], []
    packed = as_list(bag.rest.get("events"))
    inner = [RawEvent(as_name(e.get("event.name")), None, e) for e in packed if isinstance(e, dict)]
    heard = [e for e in (*events, *inner) if wanted(e)]
    if inner and all(e.name in _SPEAKERS or e.name == "gen_ai.choice" for e in inner) and wanted(inner[-1]):
        del bag.rest["events"]
    return heard, [e for e in events if not wanted(e)]


def _heard(event: RawEvent) -> list[Message]:
    """The messages of an event."""
    if event.name in (_PROMPT, _COMPLETION):
        speaker = "user" if event.name == _PROMPT else "assistant"
        return messages_of(event.attributes.get("gen_ai.prompt") or event.attributes.get("gen_ai.completion"), speaker)
    if event.name == "gen_ai.choice":
        inner = decoded_json(event.attributes.get("message"))
        item = inner if isinstance(inner, dict) else {"content": inner} if inner else event.attributes
        return [message_of({**item, "role": item.get("role") or "assistant"})]
    speaker = _SPEAKERS[event.name]
    return [message_of({**event.attributes, "role": event.attributes.get("role") or speaker})]


def _openinference(item: Any, speaker: str) -> Message:
    """A message of `llm.input_messages` or `llm.output_messages`."""
    inner = as_dict(as_dict(item).get("message"))
    contents = inner.get("contents")
    changed = {**inner, "role": inner.get("role") or speaker}
    if isinstance(contents, list) and not inner.get("content"):
        changed["content"] = [as_dict(c).get("message_content", c) for c in contents]
    if inner.get("function_call_name"):
        arguments = as_text(inner.get("function_call_arguments_json"))
        changed["function_call"] = {"name": inner["function_call_name"], "arguments": arguments}
    return message_of(changed, speaker)


def _texts(bag: Bag, prefix: str, key: str, speaker: str) -> list[Message]:
    """Plain completions: `llm.prompts.0.prompt.text`, or a list of strings under the prefix."""
    texts = [as_dict(as_dict(i).get(key)).get("text") for i in bag.indexed(prefix)]
    if isinstance(bag.rest.get(prefix), list):
        texts.extend(bag.take(prefix))
    return [m for text in texts for m in messages_of(text, speaker)]


def _ai_sdk(bag: Bag) -> list[Message]:
    """The answer of a Vercel AI SDK span: text and tool calls apart."""
    text, calls = bag.take("ai.response.text"), as_list(bag.take("ai.response.toolCalls"))
    parts = [*([Text(as_text(text))] if text else []), *(p for c in calls for p in message_of(as_dict(c)).parts)]
    return [Message("assistant", tuple(parts))] if parts else []


def _raw(bag: Bag, keys: tuple[str, ...], speaker: str) -> list[Message]:
    """Messages out of a raw request or response; its first place is kept for what else it says."""
    for key in keys:
        if key in bag and (messages := messages_of(bag.rest[key], speaker)):
            if key != keys[0]:
                bag.rest.setdefault(keys[0], bag.rest.pop(key))
            return messages
    return []


def _stop(item: Any) -> str:
    """Why the model stopped, as a message or a response says."""
    if not isinstance(item, dict):
        return ""
    inner = next((i for k in ("choices", "candidates") for i in as_list(item.get(k)) if isinstance(i, dict)), {})
    keys = ("finish_reason", "finishReason", "stop_reason")
    return next((as_name(i[k]) for i in (item, inner) for k in keys if i.get(k)), "")
