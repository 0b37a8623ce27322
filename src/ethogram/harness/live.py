"""Live capture of a run: one gateway for this process, through which its agents call their models.

Agents find it by the variables that name base URLs. A command gets them in its environment, with the token of its
episode in them; a Python agent shares this process with other episodes, so its requests are marked as they are sent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ethogram.errors import BadUsage
from ethogram.perturbations.tools import ToolPerturbation
from ethogram.store import Run
from ethogram.store.stop import POLL_SECONDS, pulled
from ethogram.wire.certificates import trusted
from ethogram.wire.fixture import FixturePlayer
from ethogram.wire.gateway.attribution import ASIDE, EPISODE_HEADER, Attribution, marked
from ethogram.wire.gateway.breaker import Breaker
from ethogram.wire.gateway.call import KILLED, CallPolicy
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.headers import EPISODE_VARIABLE
from ethogram.wire.gateway.refusals import CallOutcomes
from ethogram.wire.gateway.registered_episode import Joined, Refusal
from ethogram.wire.gateway.upstreams import Upstream, missing_keys, upstreams_of, variables_of
from ethogram.wire.mcp.recorded import RecordedSession
from ethogram.wire.otel.provider import lend_provider, take_provider_back
from ethogram.wire.recorder import Recorder

from .agents import SPENT, Agent
from .environment import Environment
from .isolation import Door
from .options import ReplayOf, RunOptions
from .outside_agents import CommandAgent, HttpAgent
from .scratch import new_folder
from .threads import in_thread

_lock = threading.RLock()
_process: ProcessGateway | None = None


class ProcessGateway:
    """The gateway of this process. It stays until the process ends: clients that were made under it may outlive a run.

    It begins to serve with the first connection, so that agents that call no model pay nothing for it.
    """

    def __init__(self) -> None:
        """Bind a port; nothing is served yet."""
        self.pid = os.getpid()
        self.gateway = Gateway({})
        self.gateway.start_when_called()
        self.attribution = Attribution(self.gateway.address, self.gateway.bypassed)
        self._sessions: list[dict[str, str]] = []
        self._before: dict[str, str | None] = {}
        self._socket: Path | None = None

    def door(self) -> Door:
        """A way in for programs that cannot reach the loopback of this machine."""
        with _lock:
            if self._socket is None:
                self._socket = new_folder("gateway") / "socket"
                self.gateway.listen_at(self._socket)
            return Door(self._socket, self.gateway.port)

    def routes(self, upstreams: Mapping[str, Upstream]) -> dict[str, Upstream]:
        """Names under which the gateway forwards to these; a name keeps its meaning as long as the process lives."""
        known = self.gateway.upstreams
        named: dict[str, Upstream] = {}
        with _lock:
            for upstream in upstreams.values():
                names = (upstream.name, *(f"{upstream.name}-{n}" for n in range(2, 1000)))
                name = next(n for n in names if known.get(n, upstream) == upstream)
                known[name] = named[name] = upstream
        return named

    def set_variables(self, variables: dict[str, str]) -> None:
        """Set variables of this process; `unset_variables` brings back what was there before."""
        with _lock:
            if not self._sessions:
                self._before = {}
            for name in variables:
                self._before.setdefault(name, os.environ.get(name))
            self._sessions.append(variables)
            os.environ.update(variables)

    def unset_variables(self, variables: dict[str, str]) -> None:
        """End what `set_variables` began; sessions of other threads keep theirs."""
        with _lock:
            self._sessions = [one for one in self._sessions if one is not variables]
            for name, before in self._before.items():
                kept = next((one[name] for one in reversed(self._sessions) if name in one), before)
                if kept is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = kept

    def environment(self) -> dict[str, str]:
        """The environment of this process as it is without us."""
        with _lock:
            ours = self._before if self._sessions else {}
            plain = {name: value for name, value in os.environ.items() if name not in ours}
            return plain | {name: value for name, value in ours.items() if value is not None}


def process_gateway() -> ProcessGateway:
    """The gateway of this process; a forked child makes its own."""
    global _process
    with _lock:
        if _process is None or _process.pid != os.getpid():
            _process = ProcessGateway()
        return _process


class LiveCapture:
    """Live capture for one session of a run; use `with`."""

    def __init__(
        self,
        environment: Environment,
        *,
        in_process: bool,
        run: Run | None = None,
        beyond: str | None = None,
        replay: ReplayOf | None = None,
        records_itself: bool = False,
        breaker: Breaker | None = None,
    ) -> None:
        """`in_process` is for agents in Python; where `environment` passes on a base URL, that is the upstream.

        `beyond` is the address of the gateway under which a user started a service; raises `BadUsage` if none answers.
        A `replay` needs no key: clients of its providers find a word in its place. An agent that `records_itself` tells
        the trace of its model calls; those that are answered for it are not told again. `breaker` keeps calls back."""
        self._breaker = breaker
        self._records_itself = records_itself
        self._replay = replay
        self._process = process_gateway()
        ours = self._process.environment()
        seen = {**ours, **environment.variables(ours)} if in_process else environment.variables(ours)
        self.beyond = None if beyond is None else UserGateway(beyond)
        upstreams = upstreams_of(seen) if self.beyond is None else self.beyond.upstreams()
        self._routes = self._process.routes(upstreams)
        self._environment = seen
        self.in_process = in_process
        self._switch = KillSwitch(run) if run is not None else None
        self._own: dict[str, str] = {}

    def __enter__(self) -> LiveCapture:
        if self.in_process:
            self._own = {**self.variables(), EPISODE_VARIABLE: self._process.gateway.address}
            self._process.set_variables(self._own)
            address = self._process.gateway.address
            self._process.attribution.redirect(
                {u.origin + u.path: f"{address}/{name}{u.path}" for name, u in self._routes.items()}
            )
            self._process.attribution.install()
        return self

    def __exit__(self, *_: object) -> None:
        if self.in_process:
            take_provider_back()
            self._process.attribution.uninstall()
            self._process.unset_variables(self._own)
        if self._switch is not None:
            self._switch.close()

    def variables(self, token: str = "") -> dict[str, str]:
        """The variables that lead to the gateway, for one episode or for whatever this process calls."""
        address = self._process.gateway.address
        base = f"{address}/{token}" if token else address
        keys = missing_keys(self._environment, self._replay.providers) if self._replay else {}
        return variables_of(base, self._routes, self._environment) | keys

    def address(self, token: str) -> str:
        """Where proxies of MCP find an episode."""
        return f"{self._process.gateway.address}/{token}"

    def bases(self, token: str) -> dict[str, str]:
        """The base URLs of an episode by provider, without the path that clients add by themselves."""
        address = self._process.gateway.address
        return {upstream.name: f"{address}/{token}/{route}" for route, upstream in self._routes.items()}

    def join(self, record: Recorder, policies: Sequence[CallPolicy] = ()) -> EpisodeCapture:
        """Register an episode; its calls are decided upon by `policies`, recorded and metered until it leaves."""
        if self.in_process:
            lend_provider()
        joined = self._process.gateway.join(record, policies=policies, stop=self._switch, breaker=self._breaker)
        joined.records_itself = self._records_itself
        return EpisodeCapture(joined, self)

    def aside(self) -> AbstractContextManager[None]:
        """What this process sends in the block belongs to no episode: checks and judges are not the agent."""
        return marked(ASIDE)

    def door(self) -> Door:
        """A way in for isolated programs."""
        return self._process.door()


class EpisodeCapture:
    """One episode at the gateway."""

    def __init__(self, joined: Joined, session: LiveCapture) -> None:
        """Made by `LiveCapture.join`."""
        self._joined = joined
        self._session = session

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """Environment variables for programs of the episode."""
        return {
            **self._session.variables(self._joined.token),
            EPISODE_VARIABLE: self._session.address(self._joined.token),
        }

    @property
    def token(self) -> str:
        """The name of the episode at the gateway."""
        return self._joined.token

    @property
    def refused(self) -> Refusal | None:
        """Why its calls are refused, if they are: a cap, or the kill switch."""
        return self._joined.refused

    @property
    def killed(self) -> bool:
        """Whether the kill switch ended it."""
        return self.refused is not None and self.refused.kind == KILLED

    @property
    def outcomes(self) -> CallOutcomes:
        """Which of its model calls were answered, and which only the world refused."""
        return self._joined.outcomes

    @property
    def calls(self) -> int:
        """Model calls that were captured."""
        return self._joined.calls

    @property
    def unread(self) -> int:
        """Model calls that may have been made and could not be read, or did not pass through the gateway."""
        return self._joined.unread

    @property
    def outside_hosts(self) -> set[str]:
        """Providers that were called beside the gateway."""
        return self._joined.outside_hosts

    def door(self) -> Door:
        """A way in for isolated programs."""
        return self._session.door()

    def disturb(self, calls: Sequence[CallPolicy], tools: ToolPerturbation | None) -> None:
        """Disturb its calls of models, and of tools over MCP; to be said before the agent begins."""
        self._joined.faults, self._joined.disturbed_tools = tuple(calls), tools

    def answer_tools(self, session: RecordedSession, lenient: bool) -> None:
        """Let a recorded session answer calls of tools over MCP; to be said before the agent begins."""
        self._joined.recorded_tools, self._joined.lenient = session, lenient

    def answer_some_tools(self, fixture: FixturePlayer) -> None:
        """Let a fixture answer the tools over MCP that it knows; to be said before the agent begins."""
        self._joined.fixture = fixture

    @property
    def tools_deviated(self) -> str | None:
        """The first call of a tool over MCP that the record could not answer, and why."""
        return self._joined.tools_deviated

    @property
    def tools_served(self) -> int:
        """Calls of tools over MCP that were answered from the record."""
        return self._joined.tools_served

    def marked(self) -> AbstractContextManager[None]:
        """What this process sends in the block belongs to the episode."""
        return marked(self)

    @contextmanager
    def under(self, span: str | None) -> Iterator[None]:
        """Calls that name no span become children of this one."""
        before, self._joined.parent = self._joined.parent, span
        try:
            yield
        finally:
            self._joined.parent = before

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[Mapping[str, str]]:
        """Calls of a service beyond this process belong to the episode while the block runs; gives its headers."""
        beyond, token = self._session.beyond, self._joined.token
        if beyond is None:
            yield {}
            return
        await beyond.register(token, self._session.bases(token))
        try:
            yield {EPISODE_HEADER: token}
        finally:
            await beyond.forget(token)

    async def leave(self) -> None:
        """End the episode at the gateway; all its calls are recorded when this returns."""
        if self._joined.in_flight:
            await in_thread(self._joined.leave)
        else:
            self._joined.leave()


class KillSwitch:
    """Whether a run was stopped. Looked up beside the gateway's thread, for a home may be far away."""

    def __init__(self, run: Run) -> None:
        """Nothing is looked up before somebody asks."""
        self._run = run
        self._pulled = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def __call__(self) -> bool:
        """Whether the switch is pulled."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._look()
                    self._thread = threading.Thread(target=self._watch, daemon=True, name="ethogram-switch")
                    self._thread.start()
        return self._pulled

    def close(self) -> None:
        """Stop looking."""
        self._over.set()

    def _look(self) -> None:
        self._pulled = self._pulled or pulled(self._run.files, self._run.path) is not None

    def _watch(self) -> None:
        while not self._pulled and not self._over.wait(POLL_SECONDS):
            self._look()


def live_capture(agent: Agent, options: RunOptions, run: Run, breaker: Breaker) -> LiveCapture:
    """Live capture of an agent: in this process, of the programs that it starts, or of a service of the user's."""
    service = isinstance(agent, HttpAgent)
    return LiveCapture(
        options.environment,
        in_process=not service and not isinstance(agent, CommandAgent),
        run=run,
        beyond=options.capture if service else None,
        replay=options.replay,
        records_itself=not service and options.replay is not None and agent.meters >= SPENT,
        breaker=breaker,
    )


SECONDS = 10.0


class UserGateway:
    """A gateway in another process of this machine."""

    def __init__(self, address: str) -> None:
        """`address` is the one that it printed."""
        self.address = address.rstrip("/")

    def upstreams(self) -> dict[str, Upstream]:
        """Where it forwards to, by provider; raises `BadUsage` if no gateway answers."""
        import httpx

        try:
            reply = httpx.get(f"{self.address}/_ethogram/upstreams", timeout=SECONDS, trust_env=False, verify=trusted())
            known = reply.raise_for_status().json()
            return {name: Upstream.at(name, address) for name, address in known.items()}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError) as error:
            raise BadUsage(
                f"no gateway answers at {self.address} ({type(error).__name__}); start the agent's service under "
                "'ethogram gateway' and give the address that it prints with --capture"
            ) from None

    async def register(self, token: str, bases: Mapping[str, str]) -> None:
        """Have calls of an episode forwarded to these base URLs, by provider; raises `BadUsage` if it is not done."""
        await self._ask("PUT", token, json=dict(bases))

    async def forget(self, token: str) -> None:
        """Undo `register`."""
        await self._ask("DELETE", token)

    async def _ask(self, method: str, token: str, **body: Any) -> None:
        import httpx

        try:
            # a client for each request: the next one may be in another event loop
            async with httpx.AsyncClient(timeout=SECONDS, trust_env=False, verify=trusted()) as client:
                reply = await client.request(method, f"{self.address}/_ethogram/routes/{token}", **body)
            reply.raise_for_status()
        except httpx.HTTPError as error:
            raise BadUsage(
                f"the gateway at {self.address} does not take episodes any more ({type(error).__name__}); start it "
                "again, then resume the run"
            ) from None
