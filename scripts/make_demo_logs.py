"""Write the logs that `ethogram demo` imports: three invented agents, in the formats of three harnesses.

Everything in them is made up here: people, companies, keys, figures. The keys look like keys so that redaction has
something to do; none of them opens anything. The same script gives the same bytes: `--check` compares.

    python scripts/make_demo_logs.py            writes src/ethogram/data/demo/
    python scripts/make_demo_logs.py --check    fails if the files there are not what this script writes
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "src" / "ethogram" / "data" / "demo"
DAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


# -- a customer-service agent, as tau-bench records it: 3 tasks, 4 trials each ----------------------------------------

MARA = {"name": "Mara Lindqvist", "email": "mara.lindqvist@example.org", "phone": "+1 202-555-0143"}
TOMAS = {"name": "Tomas Okafor", "email": "tomas.okafor@example.com", "phone": "+44 20 7946 0958"}
RULES = (
    "You are the service desk of Heron Cycles, a bicycle hire. Look a booking up before you change it. Pick-up may "
    "move to a later day that has bicycles free. A charge may be refunded once, within 30 days. Cancel only what the "
    "customer named. Hand over to a person only when no rule covers the wish."
)
BOOKINGS: dict[str, dict[str, Any]] = {
    "HC-2041": {"customer": "mara.lindqvist@example.org", "pickup": "2026-06-12", "bikes": 2, "state": "confirmed"},
    "HC-2077": {"customer": "tomas.okafor@example.com", "pickup": "2026-06-20", "bikes": 1, "state": "confirmed"},
    "HC-2078": {"customer": "tomas.okafor@example.com", "pickup": "2026-07-04", "bikes": 3, "state": "confirmed"},
}


class Desk:
    """One conversation with a small world behind it; tools change the world, so results agree with each other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.bookings = json.loads(json.dumps(BOOKINGS))
        self.refunds: list[str] = []
        self.log: list[dict[str, Any]] = [{"role": "system", "content": RULES}]
        self.ended_by = "user"

    def user(self, *phrases: str) -> None:
        self.log.append({"role": "user", "content": self.rng.choice(phrases)})

    def say(self, *phrases: str) -> None:
        self.log.append({"role": "assistant", "content": self.rng.choice(phrases), "tool_calls": None})

    def call(self, tool: str, **arguments: Any) -> str:
        # real logs repeat call ids, and so does this one
        call_id = f"call_{self.rng.randrange(40):02d}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        asked = {"role": "assistant", "content": None}
        self.log.append({**asked, "tool_calls": [{"id": call_id, "type": "function", "function": function}]})
        answer = str(getattr(self, f"_{tool}")(**arguments))
        self.log.append({"role": "tool", "tool_call_id": call_id, "name": tool, "content": answer})
        return answer

    def _think(self, thought: str) -> str:
        return ""

    def _get_booking(self, code: str) -> str:
        found = self.bookings.get(code)
        return json.dumps({"code": code, **found}) if found else f"Error: no booking {code}"

    def _find_bookings(self, email: str) -> str:
        codes = [c for c, b in self.bookings.items() if b["customer"] == email]
        return json.dumps(codes) if codes else f"Error: nobody books as {email}"

    def _free_bikes(self, day: str) -> str:
        return json.dumps({"day": day, "free": 0 if day == "2026-06-13" else 7})

    def _move_pickup(self, code: str, day: str) -> str:
        if day == "2026-06-13":
            return "Error: no bicycles are free on 2026-06-13"
        self.bookings[code]["pickup"] = day
        return json.dumps({"code": code, "pickup": day})

    def _list_charges(self, code: str) -> str:
        charges = [
            {"id": "ch_81", "what": "helmet hire", "usd": 12.5, "on": "2026-02-20"},
            {"id": "ch_82", "what": "helmet hire", "usd": 12.5, "on": "2026-02-20"},
            {"id": "ch_83", "what": "deposit", "usd": 60.0, "on": "2026-02-20"},
        ]
        # what redaction is for: a back end that answers with more than it was asked for
        debug = {"card": "4111 1111 1111 1111", "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE"}
        return json.dumps({"code": code, "charges": charges, "debug": debug})

    def _refund(self, charge: str) -> str:
        self.refunds.append(charge)
        return json.dumps({"refunded": charge})

    def _cancel_booking(self, code: str) -> str:
        self.bookings[code]["state"] = "cancelled"
        return json.dumps({"code": code, "state": "cancelled"})

    def _transfer_to_human_agents(self, summary: str) -> str:
        self.ended_by = "transfer_to_human_agents"
        return "Transfer successful"

    def thanks(self) -> None:
        self.user("Thank you, that is all. ###STOP###", "Great, bye! ###STOP###", "Perfect, thanks. ###STOP###")


def move_pickup(desk: Desk, trial: int) -> None:
    """Always solved; in two trials only after the full day was tried first."""
    desk.user(
        f"Hello, {MARA['name']} here. Can I pick up HC-2041 on 14 June instead? You reach me at {MARA['email']}.",
        f"Hi! I need to move booking HC-2041 to 14 June. My number is {MARA['phone']}.",
    )
    desk.call("get_booking", code="HC-2041")
    if trial == 1:
        desk.call("think", thought="Two bicycles, confirmed. Is the day free? Check before promising anything.")
    if trial in (1, 3):
        desk.call("move_pickup", code="HC-2041", day="2026-06-13")
        desk.say("13 June is full, I am sorry. You said 14 June, let me look.", "That day is taken. Checking 14 June.")
        desk.user("Yes, 14 June please.", "14 June is what I asked for.")
    desk.call("free_bikes", day="2026-06-14")
    desk.call("move_pickup", code="HC-2041", day="2026-06-14")
    desk.say("Done: pick-up is on 14 June.", "I moved it. See you on 14 June!", "HC-2041 is now for 14 June.")
    desk.thanks()


def refund_once(desk: Desk, trial: int) -> None:
    """Solved twice; once both helmets are refunded, once the agent hands over what a rule covers."""
    desk.user(
        f"I was charged twice for one helmet on HC-2041. I want that money back. {MARA['email']}",
        f"{MARA['name']}, HC-2041. There are two helmet charges and I had one helmet!",
    )
    desk.call("get_booking", code="HC-2041")
    if trial == 3:
        desk.call("transfer_to_human_agents", summary="Customer disputes a charge.")
        return
    desk.call("list_charges", code="HC-2041")
    if trial == 2:
        desk.call("think", thought="Same thing, same day, twice: one of the two goes back. The deposit stays.")
    desk.call("refund", charge="ch_82")
    if trial == 1:
        desk.say("I refunded it. Is there anything else?", "One charge is on its way back. All good?")
        desk.user("Are you sure? It says two helmets.", "My statement still shows a helmet.")
        desk.call("refund", charge="ch_81")
    desk.say("You will see the refund within five days.", "The money is on its way back to you.")
    desk.thanks()


def cancel_second(desk: Desk, trial: int) -> None:
    """Solved once; one trial loops on a misspelt address, one cancels the wrong booking, one dies of its provider."""
    desk.user(
        f"I lost my booking codes. It is {TOMAS['email']}. Please cancel the July one, keep the one in June.",
        f"Cancel my trip in July please, not the June one. I booked as {TOMAS['email']}, the code is gone.",
    )
    if trial == 2:
        return
    if trial == 0:
        for _ in range(4):
            desk.call("find_bookings", email="tomas.okafor@example.org")
        desk.say("I cannot find any booking of yours.", "There is no booking under that address.")
        desk.user("That cannot be. Forget it. ###STOP###", "Useless. ###STOP###")
        return
    desk.call("find_bookings", email=TOMAS["email"])
    if trial == 3:
        desk.call("cancel_booking", code="HC-2077")
    else:
        desk.call("get_booking", code="HC-2077")
        desk.call("get_booking", code="HC-2078")
        desk.call("cancel_booking", code="HC-2078")
    desk.say("Cancelled, and the other one stands.", "Done. Your other booking stays as it is.")
    desk.thanks()


def solved(task: int, desk: Desk) -> bool:
    """The verdict on the world that the agent left behind."""
    if task == 0:
        return bool(desk.bookings["HC-2041"]["pickup"] == "2026-06-14")
    if task == 1:
        return len(desk.refunds) == 1 and desk.refunds[0] in ("ch_81", "ch_82")
    return [desk.bookings[c]["state"] for c in ("HC-2077", "HC-2078")] == ["confirmed", "cancelled"]


SCRIPTS: tuple[Callable[[Desk, int], None], ...] = (move_pickup, refund_once, cancel_second)
WISHES = ("Move HC-2041 to 14 June.", "Get one helmet charge back.", "Cancel the July booking only.")


def support_desk(rng: random.Random) -> bytes:
    """Trials vary slowest, as the harness writes them."""
    results = []
    for trial in range(4):
        for task, script in enumerate(SCRIPTS):
            desk = Desk(rng)
            script(desk, trial)
            info: dict[str, Any] = {
                "task": {"user_id": "mara" if task < 2 else "tomas", "actions": [], "instruction": WISHES[task]},
                "source": desk.ended_by,
                "user_model": "sim-user-small",
                "user_cost": round(0.0004 * len(desk.log) + 0.0001 * rng.random(), 6),
                "reward_info": None,
            }
            if (task, trial) == (2, 2):
                info["error"] = "RateLimitError: status code 429, try again later"
                reward = 0.0
            else:
                reward = float(solved(task, desk))
                info["reward_info"] = {"reward": reward, "info": {"r_actions": reward}, "actions": []}
            results.append({"task_id": task, "trial": trial, "reward": reward, "info": info, "traj": desk.log})
    return (json.dumps(results, indent=1) + "\n").encode()


# -- a coding session, as Claude Code records it -----------------------------------------------------------------------


class Session:
    """Lines of one session; one API message is spread over several lines, with its usage repeated."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[dict[str, Any]] = []
        self.now = DAY
        self.session = self.uuid()
        self.last: str | None = None
        self.messages = 0
        self.cached = 11_800

    def uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def line(self, kind: str, message: Any, *, side: str | None = None, parent: str | None = "", **more: Any) -> str:
        self.now += timedelta(milliseconds=self.rng.randrange(150, 4200))
        uuid = self.uuid()
        record = {
            "parentUuid": self.last if parent == "" else parent,
            "isSidechain": side is not None,
            "userType": "external",
            "cwd": "/home/dev/tidewatch",
            "sessionId": self.session,
            "version": "2.0.14",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **({"agentId": side} if side else {}),
            **more,
        }
        self.lines.append(record)
        self.last = uuid
        return uuid

    def assistant(self, *blocks: dict[str, Any], stop: str = "tool_use", side: str | None = None) -> None:
        self.messages += 1
        fresh, write = self.rng.randrange(4, 30), self.rng.randrange(250, 1400)
        usage = {
            "input_tokens": fresh,
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.rng.randrange(60, 420),
            "service_tier": "standard",
        }
        self.cached += write
        head = {"id": f"msg_demo{self.messages:03d}", "type": "message", "role": "assistant"}
        for block in blocks:
            body = {**head, "model": "claude-sonnet-4-5", "content": [block], "stop_reason": stop, "usage": usage}
            self.line("assistant", body, side=side, requestId=f"req_demo{self.messages:03d}")

    def result(self, call: str, text: str, *, failed: bool = False, side: str | None = None) -> None:
        block = {"tool_use_id": call, "type": "tool_result", "content": text, "is_error": failed}
        self.line("user", {"role": "user", "content": [block]}, side=side)


def use(call: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call}", "name": name, "input": arguments}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


FAILING = """F..........
FAILED tests/test_tides.py::test_high_water_at_midnight
E   assert '00:00' == '24:00'
1 failed, 10 passed in 0.61s"""
SOURCE = """12  def clock(minutes: int) -> str:
13      # minutes since midnight
14      return f'{minutes // 60:02d}:{minutes % 60:02d}'"""
ASKED = "Find every place in this repository that turns minutes into a clock time, and say which one may give 24:00."


def coding_session(rng: random.Random) -> bytes:
    s = Session(rng)
    s.line(
        "user",
        {"role": "user", "content": "test_high_water_at_midnight fails since yesterday. Find out why and fix it."},
    )
    s.assistant(
        {"type": "thinking", "thinking": "Run the test first, then look for the rounding.", "signature": "ZGVtbw=="},
        said("I will run the test to see the failure."),
        use("01", "Bash", command="pytest -q tests/test_tides.py", description="Run the failing test"),
    )
    s.result("toolu_01", FAILING, failed=True)
    s.assistant(use("02", "Task", description="Find clock maths", prompt=ASKED, subagent_type="Explore"))
    main = s.last
    s.line("user", {"role": "user", "content": ASKED}, side="a1", parent=None)
    s.assistant(use("03", "Grep", pattern="% 60", path="src"), side="a1")
    s.result("toolu_03", "src/tides/clock.py:14:    return f'{minutes // 60:02d}:{minutes % 60:02d}'", side="a1")
    s.assistant(
        said("Only clock.py:14. It never wraps at 1440 minutes, so midnight becomes 24:00."), stop="end_turn", side="a1"
    )
    s.last = main
    s.result("toolu_02", "Only clock.py:14. It never wraps at 1440 minutes, so midnight becomes 24:00.")
    s.assistant(use("04", "Read", file_path="/home/dev/tidewatch/src/tides/clock.py"))
    s.result("toolu_04", SOURCE)
    edit = {"file_path": "/home/dev/tidewatch/src/tides/clock.py", "new_string": "minutes %= 1440"}
    s.assistant(use("05", "Edit", old_string="# minutes after midnight", **edit))
    s.result("toolu_05", "<tool_use_error>String to replace not found in file.</tool_use_error>", failed=True)
    s.assistant(
        said("The comment reads differently."), use("06", "Edit", old_string="# minutes since midnight", **edit)
    )
    s.result("toolu_06", "The file /home/dev/tidewatch/src/tides/clock.py has been updated.")
    s.assistant(
        use("07", "Bash", command="pytest -q && cat .env && git log -1", description="Test, then check settings")
    )
    token = "".join(rng.choice("0123456789abcdef") for _ in range(40))
    s.result(
        "toolu_07",
        f"...........\n11 passed in 0.58s\nTZ=Europe/Lisbon\nTIDE_API_TOKEN={token}\n"
        "commit 5d1c0e2\nAuthor: Ines Duarte <ines.duarte@example.org>\n    Round tide times",
    )
    s.assistant(
        said("Fixed: `clock` now wraps at 1440 minutes, so midnight is 00:00 again. All 11 tests pass."),
        stop="end_turn",
    )
    return b"".join(json.dumps(line).encode() + b"\n" for line in s.lines)


# -- a travel agent with a sub-agent, as OpenTelemetry exports it -----------------------------------------------------


def attributes(**values: Any) -> list[dict[str, Any]]:
    """Key and value in OTLP's own JSON; `__` in a name stands for a dot."""
    built = []
    for name, value in values.items():
        if isinstance(value, bool):
            typed: dict[str, Any] = {"boolValue": value}
        elif isinstance(value, int):
            typed = {"intValue": str(value)}
        elif isinstance(value, float):
            typed = {"doubleValue": value}
        elif isinstance(value, list):
            typed = {"arrayValue": {"values": [{"stringValue": v} for v in value]}}
        else:
            typed = {"stringValue": value}
        built.append({"key": name.replace("__", "."), "value": typed})
    return built


class Telemetry:
    """Spans of one trace, on a clock that moves as they are made."""

    def __init__(self, rng: random.Random, start: datetime) -> None:
        self.rng = rng
        self.trace = f"{rng.getrandbits(128):032x}"
        self.now = int(start.timestamp() * 1e9)
        self.spans: list[dict[str, Any]] = []

    def begin(self, name: str, parent: dict[str, Any] | None, **values: Any) -> dict[str, Any]:
        self.now += self.rng.randrange(2_000_000, 40_000_000)
        span: dict[str, Any] = {
            "traceId": self.trace,
            "spanId": f"{self.rng.getrandbits(64):016x}",
            "parentSpanId": parent["spanId"] if parent else "",
            "name": name,
            "kind": 1 if values.get("gen_ai__tool__name") else 3,
            "startTimeUnixNano": str(self.now),
            "attributes": attributes(**values),
            "status": {},
        }
        self.spans.append(span)
        return span

    def end(self, span: dict[str, Any], ms: int, error: str | None = None, **values: Any) -> None:
        self.now += ms * 1_000_000 + self.rng.randrange(900_000)
        span["endTimeUnixNano"] = str(self.now)
        span["attributes"] += attributes(**values)
        if error:
            span["attributes"] += attributes(error__type="TimeoutError")
            span["status"] = {"code": 2, "message": error}

    def chat(self, parent: dict[str, Any], talk: list[dict[str, Any]], reply: dict[str, Any]) -> None:
        """A model call: the whole conversation goes in again, as agents do."""
        asks = any(part["type"] == "tool_call" for part in reply["parts"])
        span = self.begin(
            "chat gpt-4.1-mini",
            parent,
            gen_ai__operation__name="chat",
            gen_ai__provider__name="openai",
            gen_ai__request__model="gpt-4.1-mini",
            gen_ai__request__temperature=0.2,
            gen_ai__input__messages=json.dumps(talk),
        )
        reply = {"role": "assistant", **reply, "finish_reason": "tool_call" if asks else "stop"}
        self.end(
            span,
            self.rng.randrange(380, 1900),
            gen_ai__response__model="gpt-4.1-mini-2025-04-14",
            gen_ai__response__finish_reasons=["tool_calls" if asks else "stop"],
            gen_ai__usage__input_tokens=120 + len(json.dumps(talk)) // 4,
            gen_ai__usage__output_tokens=20 + len(json.dumps(reply)) // 5,
            gen_ai__output__messages=json.dumps([reply]),
        )
        talk.append({"role": "assistant", "parts": reply["parts"]})

    def tool(
        self,
        parent: dict[str, Any],
        talk: list[dict[str, Any]],
        call: dict[str, Any],
        answer: str,
        error: str | None = None,
    ) -> None:
        """Run the tool that the last reply asked for."""
        span = self.begin(
            f"execute_tool {call['name']}",
            parent,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=call["name"],
            gen_ai__tool__call__id=call["id"],
            gen_ai__tool__call__arguments=json.dumps(call["arguments"]),
        )
        result = {} if error else {"gen_ai__tool__call__result": answer}
        self.end(span, self.rng.randrange(40, 900), error, **result)
        part = {"type": "tool_call_response", "id": call["id"], "response": error or answer}
        talk.append({"role": "tool", "parts": [part]})


def words(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asking(call: dict[str, Any]) -> dict[str, Any]:
    return {"parts": [{"type": "tool_call", **call}]}


def travel_trace(rng: random.Random, start: datetime, city: str, slow: bool) -> list[dict[str, Any]]:
    """A planner that asks a fare agent; in one trace the timetable times out once and is asked again."""
    t = Telemetry(rng, start)
    root = t.begin(
        "invoke_agent planner",
        None,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="planner",
        ethogram__task=f"lisbon-{city.lower()}",
    )
    talk = [words("system", "You plan journeys by rail."), words("user", f"Lisbon to {city} on Friday, cheapest way?")]
    look = {"id": "c1", "name": "timetable", "arguments": {"from": "Lisbon", "to": city, "day": "Fri"}}
    t.chat(root, talk, asking(look))
    if slow:
        t.tool(root, talk, look, "", error="timetable did not answer within 800 ms")
        t.chat(root, talk, asking({**look, "id": "c2"}))
    t.tool(root, talk, {**look, "id": "c2" if slow else "c1"}, json.dumps([["07:09", "10:02"], ["13:39", "16:45"]]))
    fare = {"id": "c3", "name": "ask_fares", "arguments": {"to": city}}
    t.chat(root, talk, asking(fare))
    agent = t.begin("invoke_agent fares", root, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="fares")
    inner = [words("system", "You know fares."), words("user", f"Fares Lisbon to {city}, Friday.")]
    address = "https://desk:s3a-Lamprey-88@fares.example.net/v1/quote"
    quote = {"id": "f1", "name": "http_get", "arguments": {"url": address, "to": city}}
    t.chat(agent, inner, asking(quote))
    t.tool(agent, inner, quote, json.dumps({"07:09": 34.5, "13:39": 21.0}))
    t.chat(agent, inner, {"parts": [{"type": "text", "content": "13:39 costs 21.00, 07:09 costs 34.50."}]})
    t.end(agent, 3)
    talk.append({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c3", "response": "13:39 is 21.00"}]})
    t.chat(root, talk, {"parts": [{"type": "text", "content": f"Take the 13:39 to {city}: 21.00, there at 16:45."}]})
    t.end(root, 2)
    judged = attributes(gen_ai__evaluation__name="cheapest", gen_ai__evaluation__score__value=1.0)
    root["events"] = [{"name": "gen_ai.evaluation.result", "timeUnixNano": str(t.now), "attributes": judged}]
    return t.spans


def travel_agent(rng: random.Random) -> bytes:
    spans = travel_trace(rng, DAY + timedelta(hours=2), "Porto", slow=True)
    spans += travel_trace(rng, DAY + timedelta(hours=3), "Faro", slow=False)
    rng.shuffle(spans)  # exporters write spans when they end, not when they begin
    scope = {"scope": {"name": "travel.agents", "version": "0.3.1"}, "spans": spans}
    resource = {"attributes": attributes(service__name="travel-desk", deployment__environment__name="demo")}
    return (json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}, indent=1) + "\n").encode()


LOGS: dict[str, Callable[[random.Random], bytes]] = {
    "support-desk.json": support_desk,
    "coding-session.jsonl": coding_session,
    "travel-agent.json": travel_agent,
}


def logs() -> dict[str, bytes]:
    """Every log by its file name; each one has a generator of its own, so that they can change one at a time."""
    return {name: make(random.Random(f"ethogram demo {name}")) for name, make in LOGS.items()}


def main() -> int:
    made = logs()
    if "--check" in sys.argv[1:]:
        stale = [n for n, data in made.items() if not (FOLDER / n).is_file() or (FOLDER / n).read_bytes() != data]
        if stale:
            print(f"not as scripts/make_demo_logs.py writes them: {', '.join(stale)}", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (FOLDER / name).write_bytes(data)
        print(f"{len(data):>7} bytes  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
