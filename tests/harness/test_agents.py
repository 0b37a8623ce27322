"""Agents by what the user typed: which callables are agents, and what is said of those that are not."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from langchain_core.messages import AIMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from ethogram.errors import BadUsage
from ethogram.harness.agents import answer_of, load_agent
from ethogram.harness.executor import EpisodeReport
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.store import Home

SUITE = Suite(name="one", tasks=(Task(id="t", prompt="say yes", expected="yes", checks=(Check(kind="equals"),)),))


def of_task(task: Any) -> str:
    return "yes" if task.prompt == "say yes" else "no"


async def of_task_async(task: Any) -> str:
    return of_task(task)


def with_default(task: Any, episode: Any = None) -> str:
    return "yes" if episode is not None else "no"


class Callable:
    def __call__(self, task: Any) -> str:
        return of_task(task)


def of_three(model: str, task: Any, episode: Any) -> str:
    return f"{model}" if task and episode else ""


@pytest.mark.parametrize(
    "agent",
    [of_task, of_task_async, with_default, Callable(), functools.partial(of_three, "yes"), lambda *given: "yes"],
)
def test_a_function_of_the_task_alone_is_an_agent(home: Home, agent: Any) -> None:
    found = run(SUITE, agent, home=home)
    assert (found.scored, found.successes) == (1, 1)


def test_what_cannot_be_called_is_refused_before_anything_runs(home: Home) -> None:
    with pytest.raises(BadUsage, match=r"of_three\(model: 'str', task: 'Any', episode: 'Any'\) -> 'str' cannot be"):
        run(SUITE, of_three, home=home)
    with pytest.raises(BadUsage, match="is a int, not an agent"):
        load_agent(5)  # type: ignore[arg-type]
    assert home.names() == []


def of_prompt(question: str, episode: Any = None) -> str:
    return "yes" if question == "say yes" else repr(question)


async def of_prompt_async(prompt: str) -> str:
    return of_prompt(prompt)


@pytest.mark.parametrize("agent", [of_prompt, of_prompt_async, functools.partial(of_prompt, episode=1)])
def test_an_agent_whose_argument_is_a_text_gets_the_prompt(home: Home, agent: Any) -> None:
    assert run(SUITE, agent, home=home).successes == 1


def completion(content: str | None) -> ChatCompletion:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    return ChatCompletion.model_validate(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )


REPLIES = {
    "chat completion": completion("yes"),
    "its message": completion("yes").choices[0].message,
    "response": Response.model_construct(
        output=[
            SimpleNamespace(type="reasoning"),
            SimpleNamespace(type="message", content=[SimpleNamespace(type="output_text", text="yes")]),
        ]
    ),
    "Anthropic": AnthropicMessage.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [{"type": "thinking", "thinking": "no", "signature": "s"}, {"type": "text", "text": "yes"}],
        }
    ),
    "LangChain": AIMessage(content=[{"type": "text", "text": "yes"}]),
    "Google": SimpleNamespace(
        candidates=[
            SimpleNamespace(
                content=SimpleNamespace(
                    parts=[SimpleNamespace(text="hm", thought=True), SimpleNamespace(text="yes", thought=None)]
                )
            )
        ]
    ),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_the_reply_of_a_provider_gives_its_text(home: Home, reply: Any) -> None:
    assert run(SUITE, lambda task: reply, home=home).successes == 1
    assert answer_of({"answer": reply, "meta": {"a": 1}}).text == "yes"


def test_a_reply_without_text_is_no_answer() -> None:
    assert answer_of(completion(None)).text is None


class Warned:
    """A watcher that notes what comes when."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def started(self, run: str, planned: int, done: Any, cap_usd: float | None) -> None:
        self.seen.append("started")

    def done(self, report: EpisodeReport) -> None:
        self.seen.append("done")

    def warn(self, words: str) -> None:
        self.seen.append(words)


def prints_only(task: Any) -> None:
    str(task.prompt)


NOTHING = "the agent returned None for task 't', which failed; where checks look at the answer, return it"
UNDECIDED = "no required check decides about the task (t), so no attempt gets a score; add one to its checks"


@pytest.mark.parametrize(
    ("agent", "suite", "seen"),
    [
        (prints_only, SUITE, ["started", "prints_only has no return with a value, so every answer is None; return *"]),
        (lambda task: None, SUITE, ["started", NOTHING, "done", "done"]),
        (of_task, Suite(name="open", tasks=(Task(id="t", prompt="say yes"),)), ["started", UNDECIDED]),
        (of_task, SUITE, ["started", "done", "done"]),
    ],
)
def test_what_makes_attempts_worthless_is_known_before_the_second_is_bought(
    home: Home, agent: Any, suite: Suite, seen: list[str]
) -> None:
    watcher = Warned()
    result = run(suite, agent, k=2, workers=1, home=home, progress=watcher)
    told = [w.partition("return the")[0] + "return *" if "has no return" in w else w for w in watcher.seen]
    assert told[: len(seen)] == seen
    assert list(result.warnings) == [w for w in watcher.seen if w not in ("started", "done")]
