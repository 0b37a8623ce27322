"""`ethogram mcp -- CMD` between the official client and the official server, and between less polite programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from ethogram.store import open_home
from ethogram.traces import Trace

SERVER = Path(__file__).with_name("shop_server.py")
EXAMPLE = Path(__file__).parents[3] / "examples" / "mcp" / "shop_server.py"
PROXY = [sys.executable, "-m", "ethogram.cli.main", "mcp"]
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2099-01-01"}}


def only_trace(home: Path, run: str) -> Trace:
    (trace,) = open_home(str(home)).run(run).traces()
    return trace


def calls_of(trace: Trace) -> list[tuple[str | None, str | None, str]]:
    spans = [s for s in trace.steps if s.kind == "tool"]
    return [(s.tool, None if s.result is None else trace.text(s.result), s.status) for s in spans]


def with_client(arguments: list[str], work: Callable[[Client], Any], mode: str = "legacy", **env: str) -> Any:
    """What some work with the official client gives, whose server is a proxy with these arguments."""

    async def main() -> Any:
        command, *rest = [*PROXY, *arguments]
        server = StdioServerParameters(command=command, args=rest, env=env or None)
        async with Client(stdio_client(server), mode=mode) as client:
            return await work(client)

    return anyio.run(main)


async def shopping(client: Client) -> list[Any]:
    seen: list[Any] = [client.protocol_version, [tool.name for tool in (await client.list_tools()).tools]]
    progress: list[float] = []

    async def told(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    for name, arguments in (("add", {"a": 1, "b": 2}), ("repeat", {"word": "ab", "times": 2}), ("fail", {})):
        result = await client.call_tool(name, arguments)
        seen.append((result.content[0].text, result.structured_content, result.is_error))  # type: ignore[union-attr]
    counted = await client.call_tool("count", {"to": 3}, progress_callback=told)
    return [*seen, counted.structured_content]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_and_server_are_recorded_and_replayed_without_a_server(tmp_path: Path, mode: str) -> None:
    started = tmp_path / "started"
    arguments = ["--home", str(tmp_path), "--run", "tools", "--", sys.executable, str(SERVER)]
    live = with_client(arguments, shopping, mode, SHOP_STARTED=str(started))
    assert live[2:] == [
        ("3", {"result": 3}, False),
        ("abab", {"result": "abab"}, False),
        ("Error executing tool fail", None, True),
        {"result": 3},
    ]
    trace = only_trace(tmp_path, "tools")
    assert calls_of(trace) == [
        ("add", "3", "ok"),
        ("repeat", "abab", "ok"),
        ("fail", "Error executing tool fail", "error"),
        ("count", "3", "ok"),
    ]
    assert all(s.seconds is not None for s in trace.spans)
    assert {s.name for s in trace.spans if s.kind == "other"} >= {"tools/list"}
    assert started.read_text() == "started\n"
    again = ["--home", str(tmp_path), "--replay", trace.head.trace_id, "--", sys.executable, str(SERVER)]
    assert with_client(again, shopping, mode, SHOP_STARTED=str(started)) == live
    assert started.read_text() == "started\n", "the server was not started a second time"


def test_a_call_that_was_not_recorded_is_an_error_or_goes_to_the_server(tmp_path: Path) -> None:
    async def sells(client: Client, count: int = 2) -> list[str]:
        seen = []
        for number in (1, count):
            try:
                result = await client.call_tool("sell", {"item": "pear", "count": number})
                seen.append(result.content[0].text)  # type: ignore[union-attr]
            except MCPError as error:
                seen.append(str(error))
        return seen

    home = ["--home", str(tmp_path)]
    server = ["--", sys.executable, str(EXAMPLE)]
    assert with_client([*home, "--run", "tools", *server], sells) == ["11 of pear", "9 of pear"]
    trace = only_trace(tmp_path, "tools").head.trace_id
    first, refused = with_client([*home, "--replay", trace], lambda client: sells(client, 5))
    assert first == "11 of pear"
    assert refused.startswith("ethogram_deviation: sell was recorded with other arguments:\n")
    assert '- "count": 2,\n+ "count": 5,' in refused
    lenient = [*home, "--replay", trace, "--lenient", "--run", "again", *server]
    assert with_client(lenient, lambda client: sells(client, 5)) == ["11 of pear", "7 of pear"], (
        "it missed the first sale"
    )
    replayed = only_trace(tmp_path, "again")
    assert "sell was recorded with other arguments" in str(replayed.head.meta["deviation"])
    assert open_home(str(tmp_path)).run("again").info.kind == "replay"


class Talk:
    """A client that writes lines of its own to a proxy."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*PROXY, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )

    def say(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> tuple[bytes, bytes, int]:
        out, err = self.process.communicate(timeout=20)
        return out, err, self.process.returncode


def call(id: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def script(tmp_path: Path, code: str) -> list[str]:
    place = tmp_path / "server.py"
    place.write_text(f"import sys, json, time, os, signal\n{code}\n")
    return ["--home", str(tmp_path), "--run", "r", "--", sys.executable, str(place)]


def test_a_server_that_dies_is_an_error_for_open_calls_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    talk = Talk(*script(tmp_path, "sys.stdin.readline(); sys.stdin.readline(); os._exit(3)"))
    talk.say(call(1, "first"), call(2, "second"))
    errors = [talk.hear(), talk.hear()]
    _, _, code = talk.close()
    assert code == 3
    assert {e["id"] for e in errors} == {1, 2}
    assert all("ended with exit code 3 before it answered" in e["error"]["message"] for e in errors)
    assert [(name, status) for name, _, status in calls_of(only_trace(tmp_path, "r"))] == [
        ("first", "error"),
        ("second", "error"),
    ]


def test_garbage_bytes_and_unknown_versions_pass_unchanged_and_are_counted(tmp_path: Path) -> None:
    lines = [json.dumps(HELLO).encode(), b"\xff\xfe garbage", b'{"jsonrpc":"2.0","id":[1],"method":"x"}', b"no end"]
    echo = "for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"
    talk = Talk(*script(tmp_path, echo))
    assert talk.process.stdin is not None
    talk.process.stdin.write(b"\n".join(lines))
    out, err, code = talk.close()
    assert out.startswith(b"\n".join(lines)), "then come errors for the two requests, which nobody answered"
    assert out.count(b"ended with exit code 0 before it answered") == 2
    assert code == 0
    assert b"4 messages could not be read" in err, "two of them, in both directions"


def test_a_huge_result_passes_whole(tmp_path: Path) -> None:
    code = (
        "request = json.loads(sys.stdin.readline())\n"
        "result = {'content': [{'type': 'text', 'text': 'x' * 9_000_000}]}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)"
    )
    talk = Talk(*script(tmp_path, code))
    talk.say(call(1, "dump"))
    assert len(talk.hear()["result"]["content"][0]["text"]) == 9_000_000
    talk.close()
    trace = only_trace(tmp_path, "r")
    assert [s.truncated for s in trace.steps] == [True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_and_what_was_recorded_is_stored(tmp_path: Path, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    code = (
        f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "for line in sys.stdin:\n"
        "  m = json.loads(line)\n"
        "  print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': {'content': []}}), flush=True)"
    )
    talk = Talk(*script(tmp_path, code))
    talk.say(call(1, "f"))
    talk.hear()
    talk.process.send_signal(number)
    _, _, code_of_proxy = talk.close()
    assert code_of_proxy == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert [name for name, _, _ in calls_of(only_trace(tmp_path, "r"))] == ["f"]


def test_what_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    talk = Talk("--home", str(tmp_path), "--run", "r", "--", sys.executable, str(EXAMPLE))
    talk.say(call(1, "stock", item="pear"))
    assert talk.hear()["result"]["content"][0]["text"] == "12 of pear"
    until = time.monotonic() + 15
    while time.monotonic() < until and not open_home(str(tmp_path)).run("r").entries:
        time.sleep(0.1)
    talk.say(call(2, "stock", item="apple"))
    talk.hear()
    talk.process.kill()
    talk.close()
    assert calls_of(only_trace(tmp_path, "r"))[0] == ("stock", "12 of pear", "ok")


def test_secrets_are_redacted_and_the_run_is_sound(tmp_path: Path) -> None:
    from ethogram.store import verify_run

    key = "sk-ant-api03-" + "Zq8vT1" * 16
    talk = Talk("--home", str(tmp_path), "--run", "r", "--", sys.executable, str(EXAMPLE), key)
    talk.say(HELLO, call(1, "stock", item=key))
    talk.hear()
    assert key in talk.hear()["result"]["content"][0]["text"], "the client gets what the server said"
    talk.close()
    stored = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert key.encode() not in stored
    run = open_home(str(tmp_path)).run("r")
    assert verify_run(run).ok
    trace = only_trace(tmp_path, "r")
    texts = [trace.text(ref) for span in trace.spans for ref in span.refs]
    assert not any(key in text for text in texts)
    again = Talk("--home", str(tmp_path), "--replay", trace.head.trace_id)
    again.say(HELLO, call(1, "stock", item=key))
    again.hear()
    assert "its answer was redacted when it was stored" in again.hear()["error"]["message"]
    _, err, code = again.close()
    assert code == 1
    assert key.encode() not in err


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    def said(*arguments: str) -> tuple[str, int]:
        done = subprocess.run(
            [*PROXY, "--home", str(tmp_path), *arguments], capture_output=True, text=True, check=False
        )
        return done.stderr.strip(), done.returncode

    assert said() == ("ethogram mcp: name one server: its command after --, or its address with --url", 64)
    assert said("--", "no-such-program-here") == (
        "ethogram mcp: cannot start the MCP server 'no-such-program-here': No such file or directory",
        64,
    )
    text, code = said("--operator", "tool_eror", "--", "true")
    assert (code, "did you mean 'tool_error'" in text) == (64, True)
    text, code = said("--replay", "abc")
    assert (code, "no trace 'abc'" in text) == (64, True)
