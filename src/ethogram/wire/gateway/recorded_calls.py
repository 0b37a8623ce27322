"""The model calls of a stored trace: request, answer, and whether the answer can be given again."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.store.texts import TraceTexts
from ethogram.traces import Message, Reasoning, Ref, Span, SpanId, Text, ToolCall, Trace, is_marked
from ethogram.traces.steps import parents

from .call import BUDGET_REFUSED, ModelReply, Usage
from .reply_rest import with_rest
from .request_form import MessageForm, RequestForm, message_form, params_form, tools_of

WIRE = "wire"
"""The attribute in which a call that passed the gateway keeps the name of its protocol."""


class RecordedModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model call of a trace; `step` is its position in the linear reading.

    `problem` says why its answer cannot be given again, `failed` what the call failed with instead of an answer.
    `wire` is the protocol it came by, None if it did not pass the gateway: then tools and parameters may be unknown.
    """

    step: int
    span: Span
    request: RequestForm
    reply: ModelReply
    wire: str | None = None
    failed: str | None = None
    status: int | None = None
    problem: str | None = None
    expected: bool = True
    """Whether a replay of the agent makes this call at the gateway: one of its own recorder does not pass there, nor
    are the calls made of a tool or a simulated user that answer from the record."""


def recorded_calls(trace: Trace) -> list[RecordedModelCall]:
    """The model calls among the steps of a trace, in order; what a budget refused was never made.

    Raises `Sealed` where the key to the words is not at hand, `Damaged` where a text is gone.
    """
    reader = _Reader(trace)
    return [
        reader.call(step, span)
        for step, span in enumerate(trace.steps)
        if span.kind == "model" and not (span.error and trace.text(span.error).startswith(BUDGET_REFUSED))
    ]


class _Reader:
    """Reads each text of a trace once: contexts grow, so most messages stand in many requests."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._forms: dict[Ref, MessageForm] = {}
        self._attributes: dict[Ref, dict[str, Any]] = {}
        self._tools: dict[Ref, tuple[str, ...] | None] = {}
        self._above = parents(trace.spans)
        self._foreign = trace.head.origin is None or trace.head.origin.format != "run"

    def call(self, step: int, span: Span) -> RecordedModelCall:
        facts = self._facts(span)
        wire = facts.get(WIRE)
        status = facts.get("status")
        failed = None
        if span.status == "error":
            failed = self._trace.text(span.error) if span.error is not None else "the call failed"
        return RecordedModelCall(
            step=step,
            span=span,
            request=self._request(span, wire is not None),
            reply=self._reply(span),
            wire=wire if isinstance(wire, str) else None,
            failed=failed if not span.output else None,
            status=status if isinstance(status, int) else None,
            problem=self._problem(span, failed),
            expected=(wire is not None or self._foreign) and not self._nested(span),
        )

    def _request(self, span: Span, whole: bool) -> RequestForm:
        """The request as far as the record tells it: without a wire, tools and parameters need not be complete."""
        messages = tuple([self._form(ref) for ref in self._trace.input_refs(span)])
        asked = span.params.get("request_model")
        model = asked if isinstance(asked, str) else span.model
        if not whole or span.attributes is None:
            return RequestForm(model, messages)
        if span.attributes not in self._tools:
            self._tools[span.attributes] = tools_of(self._trace.text(span.attributes))
        return RequestForm(model, messages, self._tools[span.attributes], params_form(span.params))

    def _form(self, ref: Ref) -> MessageForm:
        if ref not in self._forms:
            self._forms[ref] = message_form(self._trace.message(ref))
        return self._forms[ref]

    def _reply(self, span: Span) -> ModelReply:
        parts = tuple(part for ref in span.output for part in self._trace.message(ref).parts)
        response = span.params.get("response_id")
        usage = Usage(
            input_tokens=span.input_tokens,
            cache_read_tokens=span.cache_read_tokens,
            cache_write_tokens=span.cache_write_tokens,
            output_tokens=span.output_tokens,
            reasoning_tokens=span.reasoning_tokens,
        )
        reply = ModelReply(
            message=Message("assistant", parts),
            model=span.model,
            response_id=response if isinstance(response, str) and not is_marked(response) else None,
            stop_reason=span.stop_reason,
            usage=usage if usage != Usage() else None,
        )
        return with_rest(reply, None if span.result is None else self._trace.text(span.result))

    def _problem(self, span: Span, failed: str | None) -> str | None:
        if not span.output:
            return None if failed is not None else "its answer was not recorded"
        if failed is not None or span.truncated:
            return "its answer broke off before it was complete"
        if any(was_redacted(self._trace, ref) for ref in span.output):
            return "redaction changed its answer"
        return None

    def _nested(self, span: Span) -> bool:
        above = self._above[span.span_id]
        while above is not None:
            if self._trace.by_id[SpanId(above)].kind in ("tool", "user"):
                return True
            above = self._above[above]
        return False

    def _facts(self, span: Span) -> dict[str, Any]:
        if span.attributes is None:
            return {}
        if span.attributes not in self._attributes:
            self._attributes[span.attributes] = self._trace.facts(span) or {}
        return self._attributes[span.attributes]


def was_redacted(trace: Trace, ref: Ref) -> bool:
    """Whether redaction changed what a message says or calls; ids of calls do not count, since any would do."""
    if isinstance(trace.texts, TraceTexts) and not trace.texts.changed(ref):
        return False  # a mark in it is what the model itself wrote
    words: list[str] = []
    for part in trace.message(ref).parts:
        match part:
            case Text() | Reasoning():
                words.append(part.text)
            case ToolCall():
                words += [part.name, part.arguments]
    return any(map(is_marked, words))
