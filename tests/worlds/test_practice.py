"""The agent of the demonstration is an ordinary one: nothing but its calls tells what it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ethogram.harness.options import RunOptions
from ethogram.harness.suites import start_run
from ethogram.store import Home
from ethogram.wire.gateway.call import ModelReply
from ethogram.worlds import openai_shopper
from ethogram.worlds.local_model import available
from ethogram.worlds.model_server import ModelServer, in_turn, serve_model, text_reply, tool_reply
from ethogram.worlds.practice import OPENAI, local_provider, practice, shop


@contextmanager
def answering(*replies: ModelReply) -> Iterator[ModelServer]:
    """A scripted provider for the agent's client, which is made anew and closed."""
    before = dict(os.environ)
    openai_shopper.client.cache_clear()
    with serve_model(in_turn(*replies)) as server:
        os.environ.update(server.variables())
        try:
            yield server
        finally:
            openai_shopper.client().close()
            openai_shopper.client.cache_clear()
            os.environ.clear()
            os.environ.update(before)


def test_its_calls_become_steps_with_tokens_and_its_tools_are_those_of_the_task(home: Home) -> None:
    with answering(tool_reply(("price", {"item": "milk"})), text_reply("2")):
        done = start_run(shop(), OPENAI, RunOptions(tasks=("price-milk", "price-lamp")), home=home)
    run = home.run(done.run)
    assert {e.head.task: e.head.outcome.value for e in run.entries} == {"price-milk": 1.0, "price-lamp": 0.0}
    trace = run.trace("price-milk/0")
    assert [(s.kind, s.name) for s in trace.steps] == [("model", "chat"), ("tool", "price"), ("model", "chat")]
    assert trace.answer == "2"
    assert all(s.output_tokens for s in trace.steps if s.kind == "model")


def test_a_tool_that_fails_is_told_to_the_model(home: Home) -> None:
    with answering(tool_reply(("price", {"item": "moon"})), text_reply("unknown")) as server:
        start_run(shop(), OPENAI, RunOptions(tasks=("price-milk",)), home=home)
        assert b"the shop has no 'moon'" in server.calls[-1].body


@pytest.mark.skipif(available() is not None, reason=f"the local model is not here: {available()}")
def test_the_local_model_stands_in_for_the_provider_and_leaves_no_variable_behind() -> None:
    assert practice().agent == OPENAI
    before = dict(os.environ)
    with local_provider():
        assert os.environ["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert dict(os.environ) == before
