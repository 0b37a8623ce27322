"""An agent of a graph of LangGraph: its nodes, tools, retrievals and model calls become spans of the episode.

The graph is run as it is. What happens in it is told by LangChain's callbacks, as it is to instrumentors; where one of
these is at work already, nothing is told twice.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ethogram.capture.parse import as_text, to_json
from ethogram.capture.telemetry.spans import RawSpan
from ethogram.errors import BadUsage
from ethogram.plans import Task
from ethogram.traces import Kind

from .context import current_recorder

if TYPE_CHECKING:
    from .otel.episode_spans import EpisodeSpans

SCOPE = "ethogram.from_langgraph"
_HIDDEN = "langsmith:hidden"


def from_langgraph(
    graph: Any,
    *,
    ask: Callable[[Task], Any] | None = None,
    answer: Callable[[Any], Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Callable[[Task], Awaitable[Any]]:
    """An agent of a compiled graph, for `--agent my_graph.py:agent` or `eth.run`.

    `ask` makes the graph's input of a task: by default a message of the user, or the prompt where the graph has one
    input. `answer` makes the answer of the state at the end: by default the last message, or that one output. `config`
    is the graph's own, e.g. `{"recursion_limit": 10}`. Raises `BadUsage` for what is not a graph, or where
    it needs `ask`.

    >>> agent = eth.from_langgraph(graph)  # doctest: +SKIP
    """
    if not callable(getattr(graph, "ainvoke", None)) or not hasattr(graph, "get_graph"):
        helps = "; compile it first: graph.compile()" if hasattr(graph, "compile") else ""
        raise BadUsage(f"from_langgraph takes a compiled graph, not a {type(graph).__name__}{helps}")
    make_input = ask or _asking(graph)
    name = str(graph.get_name()) if hasattr(graph, "get_name") else "LangGraph"

    async def agent(task: Task) -> Any:
        record = current_recorder()
        settings: dict[str, Any] = dict(config or {})
        if getattr(graph, "checkpointer", None) and "thread_id" not in settings.get("configurable", {}):
            # each episode is a conversation of its own
            settings["configurable"] = {**settings.get("configurable", {}), "thread_id": token_hex(8)}
        if record is not None and not _is_instrumented():
            from .otel.episode_spans import episode_spans_of

            given = settings.get("callbacks") or []
            told = given if isinstance(given, list) else list(given.handlers)
            settings["callbacks"] = [*told, _handler(episode_spans_of(record), name)]
        state = await graph.ainvoke(make_input(task), settings)
        return state_answer(state) if answer is None else answer(state)

    agent.__name__ = agent.__qualname__ = name
    return agent


def _asking(graph: Any) -> Callable[[Task], Any]:
    inputs = _inputs(graph)
    if "messages" in inputs:
        return lambda task: {"messages": [{"role": "user", "content": task.prompt}]}
    if len(inputs) == 1:
        return lambda task: {inputs[0]: task.prompt}
    raise BadUsage(
        f"the graph takes {', '.join(inputs) or 'no input by name'}; say what it gets of a task: "
        "from_langgraph(graph, ask=lambda task: {…})"
    )


def _inputs(graph: Any) -> list[str]:
    """What a graph takes, by name: not by its JSON Schema, which not every state has."""
    builder = getattr(graph, "builder", None)
    schemas = getattr(builder, "schemas", {})
    channels = schemas.get(getattr(builder, "input_schema", None)) or getattr(graph, "channels", {})
    return [name for name in channels if not name.startswith(("__", "branch:"))]


def state_answer(state: Any) -> Any:
    """The answer in the state that a graph ended with: the words of its last message, else its only value."""
    if isinstance(state, Mapping) and state.get("messages"):
        last = state["messages"][-1]
        content = getattr(last, "content", last)
        text = getattr(last, "text", None)
        return content if isinstance(content, str) or not isinstance(text, str) else text
    if isinstance(state, Mapping) and len(state) == 1:
        return next(iter(state.values()))
    return state


def _is_instrumented() -> bool:
    """Whether an instrumentor of OpenTelemetry tells of LangChain already."""
    module = sys.modules.get("openinference.instrumentation.langchain")
    return module is not None and bool(module.LangChainInstrumentor().is_instrumented_by_opentelemetry)


def _handler(spans: EpisodeSpans, graph: str) -> Any:
    """LangChain's callbacks as spans; made here, for its base class is imported with the graph only."""
    from langchain_core.callbacks import BaseCallbackHandler

    told = _Telling(spans, graph)

    class Handler(BaseCallbackHandler):  # type: ignore[misc]  # not installed everywhere
        run_inline = True
        raise_error = False

        def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **more: Any) -> None:
            told.chain(run_id, inputs, more)

        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
            told.model(run_id, messages, more)

        def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **more: Any) -> None:
            told.tool(run_id, (serialized or {}).get("name"), input_str, more)

        def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **more: Any) -> None:
            told.begin(run_id, "retrieval", more.get("name") or "retriever", more, arguments=query)

        def on_chain_end(self, outputs: Any, *, run_id: Any, **more: Any) -> None:
            told.end(run_id, result=None)

        def on_tool_end(self, output: Any, *, run_id: Any, **more: Any) -> None:
            told.tool_result(run_id, output)

        def on_retriever_end(self, documents: Any, *, run_id: Any, **more: Any) -> None:
            told.end(run_id, result=to_json([getattr(d, "page_content", d) for d in documents]))

        def on_llm_end(self, response: Any, *, run_id: Any, **more: Any) -> None:
            told.reply(run_id, response)

        def on_chain_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
            told.end(run_id, error=error)

        on_tool_error = on_retriever_error = on_llm_error = on_chain_error

    return Handler()


class _Telling:
    """Spans of one run of a graph, by the ids that LangChain gives to what it runs."""

    def __init__(self, spans: EpisodeSpans, graph: str) -> None:
        self._spans = spans
        self._graph = graph
        self._open: dict[Any, RawSpan] = {}
        self._above: dict[Any, Any] = {}
        """Of what is not worth a span, what stands above it."""
        self._lock = threading.Lock()

    def chain(self, run: Any, inputs: Any, more: dict[str, Any]) -> None:
        """The graph itself, a node of it, or a part of the machinery, which is passed over."""
        name, node = more.get("name") or "", (more.get("metadata") or {}).get("langgraph_node")
        if more.get("parent_run_id") is None:
            self.begin(run, "agent", self._graph, more)
        elif node is not None and node == name and _HIDDEN not in (more.get("tags") or ()):
            self.begin(run, "other", name, more)
        else:
            self._above[run] = more.get("parent_run_id")

    def model(self, run: Any, messages: Any, more: dict[str, Any]) -> None:
        """A chat model is asked."""
        facts = more.get("metadata") or {}
        self.begin(run, "model", "chat", more, model=facts.get("ls_model_name"), provider=facts.get("ls_provider"))
        self._open[run].attributes["gen_ai.input.messages"] = _plain(messages[0] if messages else [])

    def tool(self, run: Any, name: str | None, given: str, more: dict[str, Any]) -> None:
        """A tool is called."""
        arguments = to_json(more["inputs"]) if more.get("inputs") is not None else given
        shown = name or more.get("name") or "tool"
        self.begin(run, "tool", shown, more, tool=shown, arguments=arguments, call_id=more.get("tool_call_id"))

    def begin(self, run: Any, kind: Kind, name: str, more: dict[str, Any], **fields: Any) -> None:
        """A span begins."""
        facts = {key: value for key, value in fields.items() if value is not None}
        span = RawSpan(name=name, hint=kind, start_ns=time.time_ns(), fields=facts, extra={"otel.scope": SCOPE})
        with self._lock:
            self._open[run] = span
            above = more.get("parent_run_id")
            while above in self._above:
                above = self._above[above]
        self._spans.started(run, above, f"{run.int & (1 << 64) - 1:016x}", lambda: span)

    def tool_result(self, run: Any, output: Any) -> None:
        """What a tool gave: a message of LangChain, or any value."""
        call_id = getattr(output, "tool_call_id", None)
        if call_id is not None and run in self._open:
            self._open[run].fields.setdefault("call_id", call_id)
        self.end(run, result=as_text(getattr(output, "content", output)))

    def reply(self, run: Any, response: Any) -> None:
        """What a model said, and what it used."""
        message = getattr(response.generations[0][0], "message", None) if response.generations else None
        span = self._open.get(run)
        if span is not None and message is not None:
            about, used = message.response_metadata or {}, message.usage_metadata or {}
            span.attributes |= {
                "gen_ai.output.messages": _plain([message]),
                "gen_ai.response.id": about.get("id") or (response.llm_output or {}).get("id"),
                "gen_ai.response.finish_reasons": about.get("finish_reason") or about.get("stop_reason"),
                "gen_ai.usage.input_tokens": used.get("input_tokens"),
                "gen_ai.usage.output_tokens": used.get("output_tokens"),
            }
        self.end(run)

    def end(self, run: Any, *, result: str | None = None, error: BaseException | None = None) -> None:
        """A span ends."""
        with self._lock:
            span = self._open.pop(run, None)
        if span is None:
            return
        span.end_ns, span.status = time.time_ns(), "ok" if error is None else "error"
        if error is not None:
            span.message = f"{type(error).__name__}: {error}"
        if result is not None:
            span.fields["result"] = result
        self._spans.ended(run, span)


def _plain(messages: Any) -> Any:
    """Messages as the chat API writes them, which is one of the shapes that telemetry has."""
    from langchain_core.messages import convert_to_openai_messages

    return convert_to_openai_messages(list(messages))
