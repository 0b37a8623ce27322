"""The words of steps: each text at one step, one step and its neighbours, a search, and what cannot be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.divergence.diff import diff
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.traces import TraceTree, find_trace, split_place, trace
from ethogram.store import Home


def parts(tree: TraceTree) -> list[tuple[int, str, str, str, int | None]]:
    return [(w.step, p.kind, p.name, p.text, p.step) for w in tree.words for p in w.parts]


def test_the_words_of_one_step(bells: str, home: Home) -> None:
    model = trace("1/1", home=home, step=1)
    assert parts(model) == [(1, "read", "user", "", 0), (1, "call", "ring", '{"times": 1}', None)]
    tool = trace("1/1", home=home, step=2)
    assert parts(tool) == [
        (2, "arguments", "ring", '{"times": 1}', None),
        (2, "result", "ring", "Error: no bell", None),
    ]
    assert (tool.words[0].span.status, tool.words_of, tool.found) == ("error", 1, None)
    assert trace("1/1", home=home).words == []


def test_neighbours_stop_at_the_ends(bells: str, home: Home) -> None:
    for step, around, steps in ((0, 1, [0, 1]), (3, 1, [2, 3]), (2, 9, [0, 1, 2, 3]), (1, 1, [0, 1, 2])):
        assert [w.step for w in trace("1/1", home=home, step=step, around=around).words] == steps


def test_each_text_stands_at_one_step(bells: str, home: Home) -> None:
    whole = trace("1/1", home=home, full=True)
    texts = [text for _, _, _, text, _ in parts(whole)]
    assert texts.count("Ring the bell.") == 1
    assert texts.count("Error: no bell") == 1
    assert parts(whole)[-1] == (3, "message", "assistant", "Rung, 1.", None)
    assert [w.step for w in whole.words] == [0, 1, 2, 3]


def test_a_search_counts_steps_and_times(bells: str, home: Home) -> None:
    found = trace("1/1", home=home, find="RING")
    assert found.found is not None
    # once in the user's words, then as the tool of the call, of its arguments and of its result
    assert (found.found.at, found.found.steps, found.found.of, found.found.times) == ([0, 1, 2], 3, 4, 4)
    assert [w.step for w in found.words] == [0, 1, 2]
    tools = trace("1/1", home=home, find="ring", only="tools").found
    assert tools is not None
    assert (tools.steps, tools.of) == (1, 1)
    none = trace("1/1", home=home, find="elephant")
    assert none.found is not None
    assert (none.found.steps, none.words) == (0, [])


@pytest.mark.parametrize(("only", "steps"), [("errors", [2]), ("tools", [2]), ("model", [1, 3])])
def test_only_spans_of_a_kind(bells: str, home: Home, only: str, steps: list[int]) -> None:
    tree = trace("1/1", home=home, only=only)
    assert [s.step for s in tree.spans] == steps
    assert (tree.shown, tree.of) == (len(steps), len(steps))
    assert [w.step for w in trace("1/1", home=home, only=only, full=True).words] == steps
    assert [w.step for w in trace("1/1", home=home, only=only, step=0).words] == [0], "the step itself is shown"


def test_a_limit_holds_for_words_too(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.session(60)), home=home, run="long")
    tree = trace("", run="long", home=home, full=True, limit=5)
    assert (len(tree.words), tree.words_of) == (5, 60)


def test_a_place_can_be_pasted(bells: str, home: Home) -> None:
    entry = find_trace("1/1", home=home)[1]
    short = entry.head.trace_id.removeprefix("b2:")[:10]
    assert split_place(f"{short}:10") == (short, 10)
    assert split_place(f"b2:{short}:10") == (f"b2:{short}", 10)
    assert split_place("b2:10") == ("b2:10", None), "an id that is all digits is no step"
    assert split_place("a:b/3") == ("a:b/3", None)
    assert find_trace(f"{short}:2", home=home)[1] == entry
    assert [w.step for w in trace(f"{short}:2", home=home).words] == [2]
    assert [w.step for w in trace(f"{short}:2", home=home, step=1).words] == [1], "--step has the last word"
    assert diff(f"{short}:2", "1/0", home=home).first.trace_id == entry.head.trace_id


def test_what_cannot_be_asked_for(bells: str, home: Home) -> None:
    with pytest.raises(NotFound, match="has no step 4; it has steps 0 to 3"):
        trace("1/1", home=home, step=4)
    with pytest.raises(NotFound, match="has no step -1"):
        trace("1/1", home=home, step=-1)
    with pytest.raises(BadUsage, match="only takes: errors, tools, model"):
        trace("1/1", home=home, only="wrong")
    with pytest.raises(BadUsage, match="name the step with step"):
        trace("1/1", home=home, around=1)
    with pytest.raises(BadUsage, match="a number of neighbours"):
        trace("1/1", home=home, step=1, around=-1)
    with pytest.raises(BadUsage, match="needs a text"):
        trace("1/1", home=home, find=" ")


def test_the_words_where_two_traces_part(bells: str, home: Home) -> None:
    found = diff("1/0", "1/1", home=home, full=True)
    assert found.t_star == 2
    assert found.words is not None
    one, two = found.words
    assert one is not None
    assert two is not None
    assert (one.at, two.at, one.goes_on, found.words_differ) == (2, 2, False, False)
    assert two.parts[-1].text == "Error: no bell"
    assert one.parts[-1].text != two.parts[-1].text
    assert diff("1/0", "1/1", home=home).words is None


def test_same_steps_with_other_words(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.chat("Which?", "this")), home=home, run="one")
    import_logs(logs.put("b.jsonl", logs.chat("Which?", "that")), home=home, run="two")
    found = diff("", "", run="one", against="two", home=home, full=True)
    assert (found.t_star, found.words_differ) == (None, True)
    assert found.words is not None
    assert [w.parts[-1].text for w in found.words if w is not None] == ["this", "that"]
    by_messages = diff("", "", run="one", against="two", reading="messages", home=home, full=True)
    assert by_messages.words is not None
    assert by_messages.words[0] is not None
    assert (by_messages.words[0].at, by_messages.words[0].parts[0].text) == (1, "this")
    same = diff("", "", run="one", against="one", home=home, full=True)
    assert (same.words, same.words_differ) == (None, False)


def test_the_side_that_has_ended_says_nothing(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.session(4)), home=home, run="short")
    import_logs(logs.put("b.jsonl", logs.session(6)), home=home, run="long")
    found = diff("", "", run="short", against="long", home=home, full=True)
    assert found.words is not None
    assert found.words[0] is None or found.words[0].goes_on
    assert found.words[1] is not None
