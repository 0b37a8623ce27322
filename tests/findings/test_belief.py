"""The first step that acts on something that no observation returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.findings.belief import belief_of
from ethogram.traces import Message, Origin, Text, ToolCall, Trace, episode_id, trace_id
from ethogram.wire.recorder import Recorder

Step = tuple[str, dict[str, Any], str]


def trace_of(*steps: Step, prompt: str = "Help the customer.", fails: int | None = None) -> Trace:
    """A trace in which the model asks for one tool after the other; `fails` is the number of the call that fails."""
    done: list[Trace] = []
    intake = Intake(lambda _: MemorySink(done), Origin("run"), SourceReport(source="test"))
    builder = TraceBuilder(intake, trace_id("test", "belief"), episode_id("t", "0"))
    record = Recorder(builder)
    asked: tuple[Message, ...] = (Message("user", (Text(prompt),)),) if prompt else ()
    for number, (tool, arguments, result) in enumerate(steps):
        with record.model(input=asked, growing=True, model="m") as call:
            call.done(Message("assistant", (Text(f"I call {tool}."), ToolCall(tool, json.dumps(arguments)))))

        def act(said: str = result, bad: bool = number == fails, **_: Any) -> str:
            if bad:
                raise LookupError(said)
            return said

        if number == fails:
            with pytest.raises(LookupError):
                record.tool(tool, act, **arguments)
        else:
            record.tool(tool, act, **arguments)
        asked = (Message("tool", (Text(result),)),)
    builder.close()
    return done[0]


def test_an_invented_id_is_found_at_its_step() -> None:
    trace = trace_of(
        ("get_user", {"name": "Ann"}, '{"user_id": "ann_lee_3381", "orders": ["#W2230795"]}'),
        ("get_order", {"order_id": "#W2230795"}, '{"items": ["9844888101"]}'),
        ("return_item", {"order_id": "#W2230795", "item": "9844888102"}, "no such item"),
        fails=2,
    )
    found = belief_of(trace)
    assert found.first is not None
    assert (found.first.step, found.first.tool, found.first.value) == (5, "return_item", "9844888102")
    assert (found.first.kind, found.first.failed) == ("id", True)


def test_what_was_observed_is_no_belief() -> None:
    trace = trace_of(
        ("read_file", {"path": "src/app/main.py"}, "import helpers\n# see src/app/helpers.py"),
        ("read_file", {"path": "/work/src/app/helpers.py"}, "def total(): return 3"),
        prompt="Mend src/app/main.py.",
    )
    assert belief_of(trace).first is None
    assert belief_of(trace).checked == 2


@pytest.mark.parametrize(
    "command",
    ["cat src/settings.yaml", "sed -n 1,20p src/settings.yaml", "mv src/settings.yaml old.yaml"],
)
def test_files_in_commands_count(command: str) -> None:
    found = belief_of(trace_of(("bash", {"command": command}, "…"), prompt="Find the port.")).first
    assert found is not None
    assert (found.kind, found.value) == ("file", "src/settings.yaml")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "echo 1 > out/result.txt"}),
        ("write_file", {"path": "out/result.txt", "text": "1"}),
        ("search", {"query": "order 99887766"}),
        ("bash", {"command": "ls /usr/lib/python3.11/site.py"}),
        ("open_page", {"url": "http://shop.example/a/b.html"}),
    ],
)
def test_what_is_created_searched_or_known_to_every_system_is_no_belief(tool: str, arguments: dict[str, Any]) -> None:
    assert belief_of(trace_of((tool, arguments, "ok"))).first is None


def test_what_a_call_made_is_known_afterwards() -> None:
    made = ("bash", {"command": "echo 1 > out/result.txt"}, "")
    used = ("read_file", {"path": "out/result.txt"}, "1")
    assert belief_of(trace_of(made, used)).first is None
    refused = belief_of(trace_of(made, used, fails=0)).first
    assert refused is not None, "a call that failed made nothing"
    assert refused.value == "out/result.txt"


def test_a_number_that_follows_from_two_observed_ones_is_no_belief() -> None:
    steps = ("get_prices", {}, "1234.50 and 1000.25"), ("pay", {"amount": 2234.75}, "ok")
    assert belief_of(trace_of(*steps)).first is None
    wrong = belief_of(trace_of(steps[0], ("pay", {"amount": 2234.85}, "ok"))).first
    assert wrong is not None
    assert wrong.kind == "value"


def test_without_observations_it_is_unknown() -> None:
    found = belief_of(trace_of(("read_file", {"path": "a/b.txt"}, "x"), prompt=""))
    assert found.first is None
    assert "no observation" in (found.why or "")
    assert "no step names" in (belief_of(trace_of(("finish", {}, ""))).why or "")


def coded(*replies: str, prompt: str = "Analyse the sales.") -> Trace:
    """A trace of an agent that acts by code: what it says, and nothing else."""
    done: list[Trace] = []
    intake = Intake(lambda _: MemorySink(done), Origin("run"), SourceReport(source="test"))
    builder = TraceBuilder(intake, trace_id("test", "code"), episode_id("t", "0"))
    record = Recorder(builder)
    asked: tuple[Message, ...] = (Message("user", (Text(prompt),)),)
    for reply in replies:
        with record.model(input=asked, growing=True, model="m") as call:
            call.done(Message("assistant", (Text(reply),)))
        asked = (Message("user", (Text("It ran."),)),)
    builder.close()
    return done[0]


def test_code_that_reads_a_file_that_nobody_named_acts_on_a_belief() -> None:
    code = "Let us look.\n```python\nframe = read_csv('sales_2023.csv')\n```"
    found = belief_of(coded("First a plan.", code)).first
    assert found is not None
    assert (found.step, found.kind, found.value) == (1, "file", "sales_2023.csv")
    assert belief_of(coded(code, prompt="Analyse sales_2023.csv.")).first is None


@pytest.mark.parametrize(
    "code",
    [
        "open('out.txt', 'w')",
        "frame.to_csv('out.csv')",
        "get('https://a.example/b.json')",
        "open('/etc/hosts.txt')",
        "x = 'a.b'",
    ],
)
def test_code_may_name_what_it_writes_and_what_every_machine_has(code: str) -> None:
    assert belief_of(coded(f"```py\n{code}\n```")).first is None


def test_a_file_that_code_wrote_is_known_afterwards() -> None:
    wrote, read = "```py\nopen('plan.txt', 'w')\n```", "```py\nopen('plan.txt')\n```"
    assert belief_of(coded(wrote + "\n" + "Read plan.txt.", read)).first is None
    assert belief_of(coded("Nothing.", read)).first is not None
