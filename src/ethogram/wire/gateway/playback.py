"""Replay: the recorded answers of a trace, served to an agent that asks the same again.

A live request passes the redactor of the stored run and is then looked for among the recorded requests that were not
served yet, whatever their order, since agents may call concurrently; equal requests are served in recorded order. What
takes part in the comparison is said in `request_form.py`. A request that is not among them is a deviation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import Literal

import msgspec

from ethogram.errors import BadInput
from ethogram.store.redact import Redactor
from ethogram.traces import Missing, Trace

from .call import DEVIATION, Decision, ModelReply, ModelRequest, Refuse, Serve
from .recorded_calls import RecordedModelCall, recorded_calls
from .request_form import LiveForms, RequestForm, request_diff

Mode = Literal["strict", "lenient"]
RECORDED_FAILURE = "ethogram_recorded_failure"
NOT_RECORDED = "ethogram_not_recorded"
UNREACHED_STATUS = 502
"""What the gateway answered where the provider could not be reached."""
SHOWN_PROBLEMS = 3
NEAREST_AMONG = 64
"""Unserved requests that are compared to find the one to show; the next ones are the likeliest."""


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """The first request that is not in the record; `step` is where in the recorded trace it should have come.

    `recorded` is the nearest request that was still to be served, None where none was left.
    """

    step: int
    why: str
    live: str
    recorded: str | None = None
    diff: str = ""


class Playback:
    """A policy that answers the calls of one episode from a trace.

    After a deviation, `strict` refuses every call and `lenient` leaves every call to the next policy: it goes live.
    `deviation` remembers the first one.
    """

    def __init__(
        self,
        trace: Trace,
        redactor: Redactor,
        mode: Mode = "strict",
        until: int | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Read the calls of a trace; with `until`, only those of the steps before it are served.

        The request of step `until` must be the recorded one; it and what comes after it go live.
        `redactor` has the key and policy of the run that holds the trace: `home.redactor(policy_from(run.redaction))`.
        `may_be_empty` is for a trace of which something else can be served.
        Raises `BadInput` for a trace without model calls and, if `strict`, for answers that cannot be given again;
        `Sealed` or `Damaged` where its words cannot be read.
        """
        self.deviation: Deviation | None = None
        self.mode = mode
        self._trace = trace
        self._until = len(trace.steps) if until is None else until
        self._open_end = until is not None
        self._forms = LiveForms(redactor)
        self._lock = Lock()
        self._calls = recorded_calls(trace)
        if not self._calls and not may_be_empty:
            raise BadInput(
                f"{_name(trace)} has no model calls, so there is nothing to serve; record the agent with: "
                "ethogram run SUITE --agent A --capture gateway",
                where=trace.head.trace_id,
            )
        self.problems = _problems([c for c in self._calls if c.step < self._until])
        if mode == "strict" and self.problems:
            raise BadInput(_refusal(trace, self.problems), where=trace.head.trace_id)
        self._waiting: dict[str, list[RecordedModelCall]] = defaultdict(list)
        for call in self._calls:
            self._waiting[call.request.words].append(call)
        self._served: set[int] = set()

    @property
    def served(self) -> tuple[int, ...]:
        """The steps whose answers were served, in order."""
        return tuple(sorted(self._served))

    @property
    def unserved(self) -> tuple[int, ...]:
        """The steps whose answers nobody has asked for yet."""
        return tuple(c.step for c in self._left())

    @property
    def live(self) -> bool:
        """Whether calls are no longer answered from the trace: after a deviation, or past `until`."""
        if self.deviation is not None:
            return self.mode == "lenient"
        return self._until in self._served

    @property
    def first_divergence(self) -> int | None:
        """The step of the deviation; once the agent has ended, also the first step that it never asked for."""
        if self.deviation is not None:
            return self.deviation.step
        return next((c.step for c in self._left() if c.expected), None)

    def decide(self, request: ModelRequest) -> Decision | None:
        """Serve the recorded answer, or refuse; None leaves the call to the next policy."""
        with self._lock:
            if self.deviation is not None:
                return None if self.mode == "lenient" else self._refused(self.deviation)
            form = self._forms.of(request)
            call = self._take(form)
            if call is None:
                if self._until in self._served:
                    return None
                self.deviation = self._deviate(form)
            elif call.step >= self._until:
                return None
            elif call.problem is not None:
                self._served.discard(call.step)
                why = f"the answer of step {call.step} cannot be served again: {call.problem}"
                self.deviation = Deviation(step=call.step, why=why, live="\n".join(form.lines()))
            else:
                return self._answer(call)
            return None if self.mode == "lenient" else self._refused(self.deviation)

    def outside(self, method: str, path: str, costly: bool) -> Refuse | None:
        """Nothing at all is forwarded by a strict replay; what costs nothing may be done without."""
        if self.mode == "lenient" or self._open_end:
            return None
        why = f"{method} {path} is not a call whose answers are recorded"
        if not costly:
            return Refuse(status=404, kind=NOT_RECORDED, message=why)
        step = next(iter(self.unserved), len(self._trace.steps))
        self.deviate(Deviation(step=step, why=why, live=f"{method} {path}"))
        return Refuse(status=403, kind=DEVIATION, message=why)

    def deviate(self, deviation: Deviation) -> None:
        """Somebody else (a recorded tool, the recorded user) was asked for what is not in the record."""
        with self._lock:
            self.deviation = self.deviation or deviation

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Nothing to do: what was served is counted when it is decided."""

    def _take(self, form: RequestForm) -> RecordedModelCall | None:
        """The first call with the same request that was not served."""
        waiting = self._waiting.get(form.words, [])
        for position, call in enumerate(waiting):
            if call.request.same_settings(form):
                self._served.add(call.step)
                return waiting.pop(position)
        return None

    def _answer(self, call: RecordedModelCall) -> Decision:
        note = f"step {call.step} of trace {self._trace.head.trace_id}"
        if call.failed is not None:
            status = call.status or UNREACHED_STATUS
            said = call.failed.removeprefix(f"HTTP {status}: ")
            return Refuse(status=status, kind=RECORDED_FAILURE, message=said, retry=True, note=note)
        self._forms.remember(call.reply.message)
        return Serve(reply=call.reply, note=note)

    def _deviate(self, form: RequestForm) -> Deviation:
        left = self._left()
        live = "\n".join(form.lines())
        if not left:
            why = f"the agent asks once more after all {len(self._calls)} recorded calls{_cut(self._trace)}"
            return Deviation(step=len(self._trace.steps), why=why, live=live)
        nearest = max(left[:NEAREST_AMONG], key=lambda c: (c.request.alike(form), -c.step))
        return Deviation(
            step=nearest.step,
            why=f"the request differs from that of step {nearest.step}",
            live=live,
            recorded="\n".join(nearest.request.lines()),
            diff=request_diff(nearest.request, form, nearest.step),
        )

    def _left(self) -> list[RecordedModelCall]:
        left = [c for c in self._calls if c.step not in self._served]
        if not self._open_end:
            return left
        return [c for c in left if c.step <= self._until and c.expected]

    def _refused(self, deviation: Deviation) -> Refuse:
        told = f"{_name(self._trace)} cannot be replayed: {deviation.why}"
        return Refuse(
            status=403, kind=DEVIATION, message=f"{told}\n{deviation.diff}".rstrip(), note=f"step {deviation.step}"
        )


def _problems(calls: Sequence[RecordedModelCall]) -> tuple[tuple[int, str], ...]:
    return tuple((call.step, call.problem) for call in calls if call.problem is not None)


def _refusal(trace: Trace, problems: Sequence[tuple[int, str]]) -> str:
    named = "; ".join(f"step {step}: {why}" for step, why in problems[:SHOWN_PROBLEMS])
    more = f" and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
    return (
        f"{_name(trace)} cannot be replayed strictly ({named}{more}); use --lenient, which goes live there, or record "
        "it again (--redact none keeps answers as they are)"
    )


def _name(trace: Trace) -> str:
    return f"trace {trace.head.trace_id.removeprefix('b2:')[:12]}"


def _cut(trace: Trace) -> str:
    """What ended the recorded episode before the agent did, where something is known to have."""
    outcome = trace.outcome
    reason = outcome.reason if isinstance(outcome, Missing) and outcome.reason != "unscored" else None
    stopped = next((str(label.value) for label in trace.labels if label.name == "stopped_by"), None)
    if reason is None and stopped is None:
        return ""
    return f"; the recorded episode was cut short ({reason or stopped})"
