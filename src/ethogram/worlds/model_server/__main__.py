"""`python -m ethogram.worlds.model_server`: serve a model until stopped, or while a command runs."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from ethogram.errors import BadUsage, EthogramError, MissingExtra
from ethogram.loading import named_object
from ethogram.wire.stopping import StopEvent, on_stop_signals
from ethogram.worlds.local_model import MODEL, available, endpoint

from .local import LocalReply
from .scripted import ReplyFunction
from .server import ModelServer, ServerOptions, serve_model

PROGRAM = "python -m ethogram.worlds.model_server"


def main(given: Sequence[str] | None = None) -> int:
    """Serve a model; gives the exit code of the command, or 0 when it was stopped."""
    arguments = _parser().parse_args(given)
    try:
        reply, name = _model(arguments.scripted, arguments.seed)
        with serve_model(reply, ServerOptions(models=(name,)), port=arguments.port) as server:
            if arguments.command:
                return _run(arguments.command, server)
            _wait(server, name)
            return 0
    except EthogramError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Serve a model behind the APIs of OpenAI and Anthropic, on 127.0.0.1 and without a key.",
        epilog=f"Example: {PROGRAM} -- ethogram run suite --agent my_agent.py:solve -k 5",
    )
    parser.add_argument(
        "--scripted",
        metavar="FILE.py:NAME",
        help="a function that answers requests, instead of the local language model",
    )
    parser.add_argument("--port", type=int, default=0, help="the port; without it, a free one")
    parser.add_argument("--seed", type=int, default=0, help="what the local model draws with (default 0)")
    parser.add_argument("command", nargs="*", help="run this with the variables that lead to the server, then end")
    return parser


def _model(scripted: str | None, seed: int) -> tuple[ReplyFunction, str]:
    """What answers, and its name."""
    if scripted is not None:
        found = named_object(scripted)
        if not callable(found):
            raise BadUsage(f"{scripted} is not a function; give one that takes a request and gives a reply")
        return found, scripted.rpartition(":")[2]
    if (why := available()) is not None:
        raise MissingExtra(f"the local model cannot run: {why}; or give --scripted FILE.py:NAME", extra="local")
    endpoint()  # the weights are loaded before the first client waits for them
    return LocalReply(seed), MODEL


def _run(command: Sequence[str], server: ModelServer) -> int:
    """Run a command with the variables set. Ctrl-C reaches it from the terminal; SIGTERM is passed on."""
    try:
        started = subprocess.Popen(command, env=os.environ | server.variables())  # noqa: S603 - no shell
    except OSError as error:
        raise BadUsage(f"{command[0]} cannot be started: {error.strerror}") from None
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: started.terminate())
    code = started.wait()
    return code if code >= 0 else 128 - code  # ended by a signal: what a shell says


def _wait(server: ModelServer, name: str) -> None:
    """Say where the server is, and serve until SIGINT or SIGTERM."""
    stop = StopEvent()
    with on_stop_signals(stop.set):
        print(f"{name} at {server.address}; Ctrl-C stops it", file=sys.stderr)
        for variable, value in server.variables().items():
            print(f"export {variable}={value}", flush=True)
        stop.wait()


if __name__ == "__main__":
    sys.exit(main())
