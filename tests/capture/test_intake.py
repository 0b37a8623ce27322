"""What readers hand in is mended where it would break later readers, and every repair is counted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ethogram.capture.builder import MAX_NS
from ethogram.capture.draft import Draft, LabelDraft, without_surrogates
from ethogram.capture.intake import Intake, Skipped, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.errors import Unreadable
from ethogram.traces import Head, Message, Missing, Origin, Scored, Text, ToolCall, ToolResult, Trace, episode_id


class Desk:
    """An intake with its report and the traces that it finished."""

    def __init__(self, **options: Any) -> None:
        self.done: list[Trace] = []
        self.report = SourceReport(source="log")
        self.intake = Intake(lambda t: MemorySink(self.done), Origin("made", "log", "b2:1"), self.report, **options)

    def trace(self, *drafts: Draft, key: str = "one", **head: Any) -> Trace:
        with self.intake.trace(key) as builder:
            for name, value in head.items():
                setattr(builder, name, value)
            for draft in drafts:
                builder.add(draft)
        return self.done[-1]


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def says(text: str) -> Message:
    return Message("assistant", (Text(text),))


def call(*talk: Message, answer: str = "ok", **fields: Any) -> Draft:
    return Draft(kind="model", name="chat", input=talk, output=(says(answer),), **fields)


# --- ids -----------------------------------------------------------------------------------------------------------


def test_repeated_span_ids_get_a_number_that_is_not_taken() -> None:
    desk = Desk()
    wanted = ("x", "x#2", "x", "x", "x#2", None, "s6")
    trace = desk.trace(*(Draft(kind="tool", name="t", span_id=i) for i in wanted), Draft(kind="tool", name="t"))
    assert [s.span_id for s in trace.spans] == ["x", "x#2", "x#3", "x#4", "x#2#2", "s5", "s6", "s7"]
    assert desk.report.lost == {"span_id (repeated)": 3}


def test_repeated_trace_keys_are_different_traces() -> None:
    desk = Desk()
    traces = [desk.trace(key=key) for key in ("a", "a", "a#2", "a")]
    assert len({t.head.trace_id for t in traces}) == len({t.head.episode for t in traces}) == 4
    assert desk.report.lost == {"trace key (repeated)": 3}


def test_the_same_log_gives_the_same_ids_and_a_place_may_stand_for_its_name() -> None:
    assert Desk().trace().head.trace_id == Desk().trace().head.trace_id
    assert Desk().trace().head.episode == episode_id("made", "log", "one")
    assert Desk(place="elsewhere").trace().head.episode == episode_id("made", "elsewhere", "one")
    desk = Desk(place="elsewhere")
    with desk.intake.trace("uuid", worldwide=True):
        pass
    assert desk.done[0].head.episode == episode_id("made", "", "uuid")


# --- numbers and times ---------------------------------------------------------------------------------------------


def test_absurd_numbers_are_left_out_and_counted() -> None:
    desk = Desk()
    spans = desk.trace(
        Draft(kind="model", name="a", input_tokens=-1, output_tokens=1 << 60, cost_usd=math.nan),
        Draft(kind="model", name="b", cost_usd=-0.5, seq=1 << 40),
        Draft(kind="model", name="c", cost_usd=math.inf, seq=-3),
        attempt=-7,
    ).spans
    assert all(s.input_tokens is s.output_tokens is s.cost_usd is None for s in spans)
    assert [s.seq for s in spans] == [0, 1, 2]
    assert desk.done[0].head.attempt == -1
    assert desk.report.lost == {
        "input_tokens (out of range)": 1,
        "output_tokens (out of range)": 1,
        "cost_usd (out of range)": 3,
        "seq (out of range)": 2,
        "attempt (out of range)": 1,
    }


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        (5, 9, (5, 9)),
        (5, 5, (5, 5)),
        (9, 5, (9, None)),
        (0, 5, (None, 5)),
        (-1, MAX_NS, (None, None)),
        (None, 7, (None, 7)),
        (10**30, None, (None, None)),
    ],
)
def test_impossible_times(start: int | None, end: int | None, kept: tuple[int | None, int | None]) -> None:
    desk = Desk()
    trace = desk.trace(Draft(kind="tool", name="t", start_ns=start, end_ns=end))
    assert (trace.spans[0].start_ns, trace.spans[0].end_ns) == kept
    ends = [t for t in kept if t is not None]
    assert trace.head.end_ns == (max(ends) if ends else None)
    assert bool(desk.report.lost) == (kept != (start, end))


def test_a_trace_lasts_from_its_first_start_to_its_last_end() -> None:
    trace = Desk().trace(
        Draft(kind="tool", name="a", start_ns=50, end_ns=60), Draft(kind="tool", name="b", start_ns=10, end_ns=20)
    )
    assert (trace.head.start_ns, trace.head.end_ns) == (10, 60)


def test_labels_hold_what_a_table_can_hold() -> None:
    desk = Desk()
    with desk.intake.trace("one") as builder:
        for value in (1, True, 0.5, "word", None, math.nan, 10**400, "\ud800"):
            builder.label("score", value, by="log", why="because")
        builder.add_label(LabelDraft(name="late", value=1.0, by="log", at_ns=10**30))
    trace = desk.done[0]
    assert [x.value for x in trace.labels] == [1.0, True, 0.5, "word", None, None, None, "\ufffd", 1.0]
    assert [type(x.value) for x in trace.labels[:2]] == [float, bool]
    assert trace.labels[-1].at_ns is None
    assert trace.text(trace.labels[0].why or "") == "because"  # type: ignore[arg-type]
    assert desk.report.lost == {"label value (not finite)": 2, "time (out of range)": 1}


def test_params_and_meta_are_plain_values() -> None:
    given = {"a": 1, "b": 0.5, "c": True, "d": "x", "e": [1, {"k": None}], "f": None, "g": math.nan, 5: object}
    trace = Desk().trace(Draft(kind="model", name="m", params=given), meta=given)
    for kept in (trace.spans[0].params, trace.head.meta):
        assert {k: v for k, v in kept.items() if k != "5"} == {
            "a": 1,
            "b": 0.5,
            "c": True,
            "d": "x",
            "e": '[1,{"k":null}]',
        }
        assert "object" in str(kept["5"])


def test_an_error_makes_a_span_an_error_unless_it_says_otherwise() -> None:
    trace = Desk().trace(
        Draft(kind="tool", name="a", error="boom"),
        Draft(kind="tool", name="b", error="boom", status="ok"),
        Draft(kind="unheard-of", name="c"),  # type: ignore[arg-type]
    )
    assert [(s.status, s.kind) for s in trace.spans] == [("error", "tool"), ("ok", "tool"), ("unset", "other")]


def test_half_characters_become_whole_ones_everywhere() -> None:
    bad = "x\ud800y"
    trace = Desk().trace(
        Draft(
            kind="tool",
            name=bad,
            span_id=bad,
            error=bad,
            arguments=bad,
            attributes={"k": "ok"},
            output=(Message("tool", (ToolResult(bad, bad, bad),), bad),),
        ),
        task=bad,
        answer=bad,
        meta={"k": bad},
    )
    assert trace.head.task == trace.answer == trace.spans[0].name == "x\ufffdy"
    assert trace.messages[0].text == "x\ufffdy"
    assert all(body.encode() for body in trace.texts.values())
    assert without_surrogates("🜍 ü") == "🜍 ü"


# --- contexts ------------------------------------------------------------------------------------------------------


def test_a_growing_context_is_stored_once() -> None:
    talk: list[Message] = [user("q0")]
    drafts = []
    for turn in range(1, 30):
        drafts.append(call(*talk, answer=f"a{turn}"))
        talk = [*talk, says(f"a{turn}"), user(f"q{turn}")]
    trace = Desk().trace(*drafts)
    assert sum(len(s.input) for s in trace.spans) == 29
    assert [len(trace.conversation(s)) for s in trace.spans] == list(range(1, 59, 2))
    assert trace.conversation(trace.spans[-1]) == tuple(talk[:-2])


def test_conversations_that_take_turns_are_told_apart() -> None:
    one, two = [user("one")], [user("two")]
    drafts = []
    for turn in range(4):
        drafts += [call(*one, answer=f"1.{turn}"), call(*two, answer=f"2.{turn}")]
        one, two = [*one, says(f"1.{turn}"), user("go")], [*two, says(f"2.{turn}"), user("on")]
    trace = Desk().trace(*drafts)
    assert sum(len(s.input) for s in trace.spans) == 8, "each message once"
    assert trace.conversation(trace.spans[-2]) == tuple(one[:-2])
    assert trace.conversation(trace.spans[-1]) == tuple(two[:-2])


def test_lanes_do_not_mix_and_a_shorter_context_keeps_what_it_shares() -> None:
    whole = [user("a"), says("b"), user("c")]
    trace = Desk().trace(
        call(*whole), call(*whole, lane="other"), call(*whole[:2], user("new")), call(lane="other", growing=True)
    )
    assert [s.continues for s in trace.spans] == [None, None, "s0", "s1"]
    assert [s.keep for s in trace.spans] == [0, 0, 2, 4]
    assert trace.conversation(trace.spans[2]) == (*whole[:2], user("new"))
    assert trace.conversation(trace.spans[3]) == (*whole, says("ok"))


def test_requested_tools_are_named() -> None:
    reply = Message("assistant", (ToolCall("ring"), ToolCall("stop")))
    trace = Desk().trace(Draft(kind="model", name="m", output=(reply,)))
    assert trace.spans[0].requested == ("ring", "stop")


# --- failing and refusing ------------------------------------------------------------------------------------------


def test_an_error_inside_a_trace_forgets_it_and_travels_on() -> None:
    desk = Desk()
    bad: Any = Draft(kind="tool", name="t", start_ns="yesterday")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        desk.trace(Draft(kind="tool", name="t"), bad)
    assert desk.done == []
    assert (desk.report.traces, desk.report.spans) == (0, 0)


def test_a_trace_that_the_import_refuses_is_not_counted() -> None:
    desk = Desk(settle=lambda head, labels, spans: None)
    with desk.intake.trace("one") as builder:
        builder.add(Draft(kind="tool", name="t"))
    assert (desk.done, desk.report.traces) == ([], 0)

    def settle(head: Head, labels: Any, spans: int) -> Head:
        assert spans == 1
        return Head(trace_id=head.trace_id, episode=head.episode, task="supplied", outcome=Scored(1.0))

    desk = Desk(settle=settle)
    assert desk.trace(Draft(kind="tool", name="t")).head.task == "supplied"


@pytest.mark.parametrize(
    "error",
    [ValueError("a\nb"), KeyError("x"), TypeError(), RecursionError("deep"), Unreadable("gone"), OverflowError()],
)
def test_a_bad_record_is_listed_in_one_line(error: Exception) -> None:
    desk = Desk()
    with desk.intake.record("line 3"):
        raise error
    (skipped,) = desk.report.skipped
    assert skipped.where == "line 3"
    assert skipped.why
    assert "\n" not in skipped.why


def test_what_is_not_a_record_s_fault_travels_on() -> None:
    with pytest.raises(OSError, match="disk"), Desk().intake.record("line 3"):
        raise OSError("disk")


def test_a_long_list_of_bad_records_is_counted_and_not_kept() -> None:
    report = SourceReport(source="x")
    for line in range(150):
        report.skip(f"line {line}", "word " * 180)
    assert (len(report.skipped), report.skipped_more) == (100, 50)
    assert len(report.skipped[0].why) == 499


def test_a_source_in_which_there_was_nothing_says_so() -> None:
    for filled in ({"traces": 1}, {"unchanged": 1}, {"skipped": [Skipped("a", "b")]}):
        report = SourceReport(source="x", **filled)  # type: ignore[arg-type]
        report.end()
        assert report.skipped == filled.get("skipped", [])
    report = SourceReport(source="x")
    report.end()
    assert report.skipped == [Skipped("x", "there is no trace in it")]


def test_the_words_of_a_verdict_pass_the_same_way() -> None:
    trace = Desk().trace(outcome=Missing("infrastructure.network", "half \ud800"))
    assert trace.outcome == Missing("infrastructure.network", "half \ufffd")
