"""A package of somebody else adds a format to read and one to write, and nothing changes here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.readers import formats, plugged_readers, reader
from ethogram.capture.source import bytes_source
from ethogram.capture.writers import plugged_writers
from ethogram.errors import BadInput, NotFound
from ethogram.questions.home.exports import export
from ethogram.questions.logs.imports import import_logs

Install = Callable[[str, str, str], None]
READER = """
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.parse import chat_message
from ethogram.capture.records import records

def sniff(peek):
    return 95 if "campfire" in peek.first else 0

def read(source, intake):
    for where, item in records(source, intake):
        with intake.record(where), intake.trace(item["campfire"]) as trace:
            trace.task = item["task"]
            chat = ChatBuilder(trace)
            for message in item["tales"]:
                chat.add(chat_message(message))
            chat.close()
"""
WRITER = """
ENDING = ".tale"

def write(traces, stream):
    for trace in traces:
        stream.write(trace.head.task.encode() + b"\\n")
    return {"everything but the task": 1}
"""
POINTS = "[ethogram.readers]\ncampfire = campfire_logs\n[ethogram.writers]\ntale = campfire_tales\n"
LOG = {"campfire": "1", "task": "sing", "tales": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def installed(install: Install, tmp_path: Path) -> Path:
    install("campfire_logs", READER, POINTS)
    (tmp_path / "site" / "campfire_tales.py").write_text(WRITER)
    log = tmp_path / "night.log"
    log.write_text(json.dumps(LOG))
    return log


def test_a_format_of_another_package_is_recognised_read_and_written(installed: Path, tmp_path: Path) -> None:
    done = import_logs(installed, home=str(tmp_path / "home"), run="night")
    assert (done.format, done.traces, done.spans, done.skipped) == ("campfire", 1, 1, [])
    assert formats()[-1] == "campfire"
    out = export("night", "tale", out=tmp_path / "x.tale", home=str(tmp_path / "home"))
    assert (out.lost, (tmp_path / "x.tale").read_text()) == ({"everything but the task": 1}, "sing\n")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "chat.add(chat_message(message), modell='x')",
            "TypeError: ChatBuilder.add() got an unexpected keyword argument 'modell'; did you mean 'model'?",
        ),
        ("chat.add(chat_message(message, 1, 2, 3, 4))", "TypeError: chat_message() takes "),
        ("chat.ad(message)", "AttributeError: 'ChatBuilder' object has no attribute 'ad'"),
    ],
)
def test_a_mistake_of_a_reader_is_not_blamed_on_the_data(install: Install, tmp_path: Path, line: str, why: str) -> None:
    install("campfire_logs", READER.replace("chat.add(chat_message(message))", line), POINTS)
    log = tmp_path / "night.log"
    log.write_text(json.dumps(LOG))
    done = import_logs(log, home=str(tmp_path / "home"), run="night")
    assert done.traces == 0
    assert done.skipped[0].why.startswith(f"the reader is wrong, not the data (campfire_logs.py line 15): {why}")


def test_data_of_another_shape_is_blamed_on_the_data(install: Install, tmp_path: Path) -> None:
    install("campfire_logs", READER, POINTS)
    log = tmp_path / "night.log"
    log.write_text(json.dumps({**LOG, "tales": ["hi"]}))
    done = import_logs(log, home=str(tmp_path / "home"), run="night")
    assert "the reader is wrong" not in done.skipped[0].why


@pytest.mark.parametrize(("verb", "name"), [("import", "campfire"), ("redact", "campfire"), ("export", "tale")])
def test_help_lists_it(installed: Path, verb: str, name: str) -> None:
    command = [str(Path(sys.executable).with_name("ethogram")), verb, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert name in done.stdout


def test_one_that_is_no_reader_is_a_sentence_and_the_others_work(install: Install) -> None:
    points = "[ethogram.readers]\nhalf = half\n[ethogram.writers]\nhalf = half\n"
    install("half", "def sniff(peek):\n    return 100\n", points)
    traces, report = read_traces(bytes_source("x", b'{"messages": [{"role": "user", "content": "hi"}]}'))
    assert (len(traces), report.format) == (1, "openai-chat")
    with pytest.raises(BadInput, match=r"the reader 'half' of half cannot be loaded: .* it has no function read"):
        reader("half")
    assert "the writer 'half' of half cannot be loaded: it is not a writer" in plugged_writers(()).broken[0][1]
    with pytest.raises(NotFound):
        reader("haf")


def test_a_name_of_ours_is_not_taken_over(install: Install) -> None:
    install("mine", READER, "[ethogram.readers]\ninspect = mine\n")
    assert plugged_readers().values() == {}
    assert "Ethogram has a reader of that name too" in plugged_readers().broken[0][1]
    assert reader("inspect").read.__module__ == "ethogram.capture.readers.inspect"
