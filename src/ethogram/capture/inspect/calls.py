"""Model events of an Inspect sample: messages, usage and cost; of the context only what is new."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.draft import Draft
from ethogram.capture.inspect.messages import Lose, Messages, failure, token_fields
from ethogram.capture.parse import as_dict, as_float, as_list, as_name, to_json
from ethogram.traces import Message

InspectEvent = dict[str, Any]

_EXTRAS = ("role", "requested_model", "tool_choice", "retries", "request_ids", "cache", "traceback", "metadata")
_OUTPUT_EXTRAS = ("response_id", "fallback", "metadata", "error", "input_context_tokens")
_NULL = msgspec.Raw(b"null")


class ModelCalls:
    """Reads the model events of one sample, and remembers what they read and wrote."""

    def __init__(self, messages: Messages, lose: Lose) -> None:
        """`lose` counts what a span cannot hold."""
        self.seen: set[Message] = set()
        self.written: set[str] = set()
        self._messages = messages
        self._lose = lose
        self._talk: dict[str, list[Message]] = {}
        self._tools: dict[bytes, list[Any]] = {}
        self._defined: set[str] = set()

    def fields(self, event: InspectEvent) -> dict[str, Any]:
        """Fields of the draft, but for its input."""
        output = as_dict(event.get("output"))
        choices = [c for c in as_list(output.get("choices")) if isinstance(c, dict)]
        first = choices[0] if choices else {}
        message = first.get("message")
        provider, slash, model = as_name(event.get("model")).partition("/")
        if not slash:
            provider, model = "", provider
        stop = as_name(first.get("stop_reason"))
        error = failure(event.get("error"))
        if written := as_name(as_dict(message).get("id")):
            self.written.add(written)
        if event.get("call") not in (None, _NULL):
            self._lose("model.call")
        if any(c.get("logprobs") or c.get("prompt_logprobs") for c in choices):
            self._lose("logprobs")
        cached = event.get("cache") == "read"  # answered from Inspect's own cache: nothing was sent or billed
        return {
            "model": model or as_name(output.get("model")) or None,
            "provider": provider or None,
            "params": {k: v for k, v in as_dict(event.get("config")).items() if v is not None},
            "output": [self._messages.read(message)] if isinstance(message, dict) else [],
            "error": error,
            "status": "error" if error else "unset" if event.get("pending") else "ok",
            "stop_reason": "max_tokens" if stop == "length" else stop or None,
            "attributes": self._attributes(event, output, choices, model),
            **({} if cached else token_fields(output.get("usage"))),
        }

    def finish(self, draft: Draft, event: InspectEvent) -> list[Message]:
        """Give the draft its end and its input: only what is new, where it continues the last call of its lane.

        Gives the whole request.
        """
        spent = as_float(as_dict(event.get("output")).get("time"))
        if draft.end_ns is None and draft.start_ns is not None and spent is not None and spent >= 0:
            draft.end_ns = draft.start_ns + round(spent * 1e9)
        fresh = whole = self._messages.inputs(event.get("input"), event.get("input_refs"))
        if draft.kind == "model":
            before = self._talk.get(draft.lane)
            if before is not None and len(whole) >= len(before) and whole[: len(before)] == before:
                draft.growing = True
                fresh = whole[len(before) :]
            self._talk[draft.lane] = [*whole, *draft.output]
        draft.input = fresh
        self.seen.update(fresh)
        self.seen.update(draft.output)
        return whole

    def _attributes(
        self, event: InspectEvent, output: InspectEvent, choices: list[InspectEvent], model: str
    ) -> dict[str, Any]:
        plain = self._messages.plain
        kept = {k: plain(event[k]) for k in _EXTRAS if event.get(k)}
        kept.update((f"output.{k}", plain(output[k])) for k in _OUTPUT_EXTRAS if output.get(k))
        if as_name(output.get("model")) not in ("", model, event.get("model")):
            kept["response_model"] = output["model"]
        if event.get("cache") == "read" and output.get("usage"):
            kept["cached_usage"] = output["usage"]
        if choices and choices[0].get("stop_details"):
            kept["stop_details"] = choices[0]["stop_details"]
        if len(choices) > 1:
            kept["other_choices"] = [plain(c.get("message")) for c in choices[1:]]
        tools = self._tool_list(event.get("tools"))
        if tools:
            kept["tools"] = [as_name(as_dict(t).get("name")) for t in tools]
            defined = {to_json(t): t for t in tools}
            new = [t for text, t in defined.items() if text not in self._defined]
            self._defined.update(defined)
            if new:
                kept["tool_definitions"] = plain(new)
        return kept

    def _tool_list(self, raw: Any) -> list[Any]:
        """The tools of a call; every call repeats them, so they are read once."""
        if raw is None or isinstance(raw, list):
            return raw or []
        key = bytes(raw)
        if key not in self._tools:
            self._tools[key] = as_list(self._messages.value(raw))
        return self._tools[key]
