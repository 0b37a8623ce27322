"""The MCP calls of one episode: budget first, then operators or the recorded answer, then one span per request."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from ethogram.capture.draft import Draft
from ethogram.capture.parse import to_json
from ethogram.perturbations.tools import Call, ToolFailed, ToolPerturbation, Unchanged
from ethogram.prices import CapReached
from ethogram.traces import cut_whole
from ethogram.wire.gateway.call import CAP_REACHED, DEVIATION, KILLED
from ethogram.wire.recorder import Recorder

from .calls import AnswerHere, McpDecision, McpError, McpReply, McpRequest, PassOn, Settled, our_error
from .recorded import RecordedSession, params_text
from .results import FACTS, altered, failed_result, is_failed, reply_of, words_and_shape

if TYPE_CHECKING:
    from ethogram.wire.fixture import FixturePlayer
    from ethogram.wire.gateway.recorded_tools import RecordedTools

KEPT_CHARS = 8 << 20
"""Of a longer result this much is stored, and the span says that it is truncated; the client gets all of it."""
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"


class _Open(msgspec.Struct):
    """A request that the server is to answer."""

    request: McpRequest
    draft: Draft
    call: Call | None = None


class EpisodeCalls:
    """Records the requests of the MCP clients of one episode, and decides about each: a `CallHandler`."""

    def __init__(
        self,
        record: Recorder,
        *,
        parent: str | None = None,
        perturbation: ToolPerturbation | None = None,
        recorded: RecordedSession | None = None,
        fixture: FixturePlayer | None = None,
        lenient: bool = False,
        killed: Callable[[], bool] = lambda: False,
        capped: Callable[[CapReached], object] = lambda reached: None,
    ) -> None:
        """Args:
        record: the recorder of the episode; its meter counts one step for each call of a tool.
        parent: the span that the calls lie below.
        perturbation: the operator that disturbs tools.
        recorded: a session that answers instead of the server.
        fixture: answers the tools that it has calls of; the server answers all else.
        lenient: ask the server from the first request on that was not recorded, instead of answering with an error.
        killed: whether the kill switch was pulled.
        capped: told of a cap that was reached.
        """
        self._record = record
        self._parent = parent
        self._perturbation = perturbation
        self._recorded = recorded
        self._fixture = fixture
        self._lenient = lenient
        self._killed = killed
        self._capped = capped
        self._open: dict[str, _Open] = {}
        self._lock = Lock()
        self.offline = recorded is not None
        self.deviation: str | None = None
        """The first request that the recorded session could not answer, and why."""
        self.client = ""
        """The client's own name, once it has told it."""
        self.calls = self.failed = self.served = self.refused = 0

    def begin(self, request: McpRequest) -> McpDecision:
        """A client asks: gives the answer where it is known here."""
        self.client = self.client or _client_name(request.params)
        tool_call = request.tool_call
        if tool_call is None:
            return self._begin_other(request)
        name, arguments = tool_call
        if self._killed():
            self.refused += 1
            return AnswerHere(our_error(KILLED, "the kill switch was pulled; no further call is made"))
        try:
            draft = self._record.begin_tool(name, arguments, parent_id=self._parent)
        except CapReached as reached:
            self.refused += 1
            self._capped(reached)
            return AnswerHere(our_error(CAP_REACHED, f"{reached}; {name} was not called"))
        self.calls += 1
        waiting = _Open(request, draft)
        tools = self._answering(name)
        if tools is not None:
            answer = self._recorded_call(waiting, name, arguments, tools)
            if answer is not None:
                if self._perturbation is not None:
                    self._perturbation.leave(name)
                return answer
        if self._perturbation is not None and self._perturbation.changes(name):
            try:
                with self._lock:
                    waiting.call = self._perturbation.begin(name, arguments)
            except ToolFailed as error:
                reply = McpReply(result=failed_result(str(error)))
                self._end_tool(waiting, reply, {"perturbed": str(error)})
                return AnswerHere(reply)
        return PassOn(self._keep(waiting))

    def end(self, call: str, reply: McpReply) -> Settled:
        """The server has answered: gives the answer that the client is to see instead, where an operator changed it."""
        with self._lock:
            waiting = self._open.pop(call, None)
        if waiting is None:
            return Settled()
        if waiting.request.tool_call is None:
            self._end_other(waiting, reply)
            return Settled()
        changed, facts = self._disturbed(waiting, reply)
        self._end_tool(waiting, changed or reply, facts)
        return Settled(changed)

    def close(self, why: str) -> None:
        """No answer comes any more: requests that wait for one end in an error that says why."""
        for call in list(self._open):
            self.end(call, McpReply(error={"code": 0, "message": why}))

    def _begin_other(self, request: McpRequest) -> McpDecision:
        draft = self._record.begin(
            "other", request.method, arguments=params_text(request.params), parent_id=self._parent
        )
        waiting = _Open(request, draft)
        if not self.offline or self._recorded is None:
            return PassOn(self._keep(waiting))
        found = self._recorded.reply(request)
        if found is not None and not found[1]:
            self._end_other(waiting, found[0])
            return AnswerHere(found[0])
        why = self._recorded.difference(request) if found is None else f"{request.method}: {found[1]}"
        refusal = self._deviates(why)
        if refusal is None:
            return PassOn(self._keep(waiting))
        self._end_other(waiting, refusal)
        return AnswerHere(refusal)

    def _answering(self, name: str) -> RecordedTools | FixturePlayer | None:
        """What answers a tool in place of its server."""
        if self._fixture is not None and name in self._fixture.tools:
            return self._fixture
        return self._recorded.tools if self.offline and self._recorded is not None else None

    def _recorded_call(
        self, waiting: _Open, name: str, arguments: dict[str, Any], tools: RecordedTools | FixturePlayer
    ) -> AnswerHere | None:
        """The recorded answer to a call, an error where there is none, or None if the server is to answer."""
        found = tools.answer(name, arguments)
        if found is not None and not found.unusable:
            self.served += 1
            reply = reply_of(found)
            self._end_tool(waiting, reply, {"replayed": found.number})
            return AnswerHere(reply)
        if found is None:
            why = tools.difference(name, arguments)
        else:
            why = f"call {found.number} of the trace, of {name}: {found.unusable}"
        refusal = self._deviates(why)
        if refusal is None:
            return None
        self._end_tool(waiting, refusal, {})
        return AnswerHere(refusal)

    def _deviates(self, why: str) -> McpReply | None:
        """A request that was not recorded: an error, or None if the server answers from now on."""
        self.deviation = self.deviation or why
        if self._lenient:
            self.offline = False
            return None
        self.refused += 1
        return our_error(DEVIATION, why)

    def _keep(self, waiting: _Open) -> str:
        name = waiting.draft.span_id or ""
        with self._lock:
            self._open[name] = waiting
        return name

    def _disturbed(self, waiting: _Open, reply: McpReply) -> tuple[McpReply | None, dict[str, Any]]:
        """What the client sees instead of a result, and what the span says about it."""
        if waiting.call is None or self._perturbation is None or reply.result is msgspec.UNSET:
            return None, {}
        call, around = waiting.call, self._perturbation
        before = len(around.log)
        try:
            with self._lock:
                if around.operator.fails:
                    around.end(call, reply.result)
                    return None, {}
                result = altered(reply.result, lambda value: around.end(call, value))
        except ToolFailed as error:
            return McpReply(result=failed_result(str(error))), {"perturbed": str(error)}
        except Unchanged:
            return None, {}
        hit = any(change.hit for change in around.log[before:])
        return (McpReply(result=result), {"perturbed": around.operator.does}) if hit else (None, {})

    def _end_tool(self, waiting: _Open, reply: McpReply, facts: dict[str, Any]) -> None:
        draft = waiting.draft
        facts = {"server": waiting.request.server, **facts}
        if reply.error is not msgspec.UNSET:
            self.failed += 1
            draft.attributes = {FACTS: {**facts, "error": reply.error}}
            self._record.end_tool(draft, None, McpError(_message(reply.error)))
            return
        text, shape = words_and_shape(reply.result)
        if len(text) > KEPT_CHARS:
            text, shape, draft.truncated = cut_whole(text, KEPT_CHARS), None, True
        if shape is not None:
            facts["shape"] = shape
        if is_failed(reply.result):
            self.failed += 1
            draft.status, draft.error = "error", text
        draft.attributes = {FACTS: facts}
        self._record.end_tool(draft, text)

    def _end_other(self, waiting: _Open, reply: McpReply) -> None:
        draft, facts = waiting.draft, {"server": waiting.request.server}
        if reply.error is not msgspec.UNSET:
            draft.attributes = {FACTS: {**facts, "error": reply.error}}
            self._record.end(draft, McpError(_message(reply.error)))
            return
        draft.result = to_json(reply.result)
        if len(draft.result) > KEPT_CHARS:
            draft.result, draft.truncated = cut_whole(draft.result, KEPT_CHARS), True
        draft.attributes = {FACTS: facts}
        self._record.end(draft)


def _client_name(params: Any) -> str:
    """How a client calls itself, in its handshake or (since 2026-07-28) beside every request."""
    about = params if isinstance(params, dict) else {}
    meta = about.get("_meta")
    info = about.get("clientInfo") or (meta.get(CLIENT_INFO) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def _message(error: Any) -> str:
    """The words of an error of JSON-RPC."""
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else to_json(error)
