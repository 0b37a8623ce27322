"""What a newcomer types first and wrong: names that are not there, verbs without their sub-command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("golden", "name a sub-command: freeze, add, remove, diff, check, promote"),
        ("incident", "name a sub-command: open, list, show, close"),
        ("explore mapp", "there is no sub-command 'mapp', and no suite; did you mean 'map'?"),
        ("rm nope", "no run"),
        ("keys drop nope", "no key named 'nope'"),
        ("compare desk desk", "run 'desk' would be compared with itself; name two runs"),
        ("gate desk desk", "run 'desk' would be compared with itself; name two runs"),
        ("why desk --against desk", "run 'desk' would be compared with itself; name two runs"),
        ("divergence desk --against desk", "run 'desk' would be compared with itself"),
        ("stats desk --condition zz", "run 'desk' has no conditions; leave out --condition"),
        ("run nope --agent a.py:b", "no folder, file or module with a suite named 'nope'"),
    ],
)
def test_one_sentence(call, lake, line, sentence):
    said = call(*line.split())
    assert (said.code, said.out) == (64, ""), said
    assert f": {sentence}" in said.err
    assert "[y/N]" not in said.err
    assert len(said.err.splitlines()) == 1


def test_only_suites_are_named_as_suites(call, lake):
    Path("notes.py").write_text("print()")
    Path("coins.py").write_text("from ethogram.plans import Suite\nSUITE = Suite(name='s', tasks=())\n")
    Path("shop").mkdir()
    Path("shop/tasks.yaml").write_text("[]")
    Path("plain").mkdir()
    assert "known: coins.py, shop\n" in call("run", "nope", "--agent", "a.py:b").err


@pytest.mark.parametrize("port", ["99999", "taken"])
def test_a_server_that_cannot_listen_leaves_no_run(call, lake, port):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1]) if port == "taken" else port
        assert call("serve", "--port", number).code == 64
    assert [r["run"] for r in json.loads(call("runs", "--json").out)["runs"]] == ["desk"]


def test_a_report_of_another_format_names_the_formats(lake, home):
    import ethogram as eth
    from ethogram.errors import BadUsage

    with pytest.raises(BadUsage, match="format must be html, md or pdf, not 'doc'"):
        eth.report("desk", "z.html", format="doc", home=home)


def test_completion_is_a_document_too(call, document):
    assert document("completion", "zsh")["script"] == call("completion", "zsh").out
    assert (
        call("completion", "tcsh").err == "ethogram completion: no completion for 'tcsh'; there is bash, zsh and fish\n"
    )
