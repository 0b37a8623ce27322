"""Which tools change the world: declared by a suite, else known for a benchmark, else guessed from their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from .finding import Facts

_AIRLINE = """book_reservation cancel_reservation send_certificate update_reservation_baggages
update_reservation_flights update_reservation_passengers"""
_RETAIL = """cancel_pending_order exchange_delivered_order_items modify_pending_order_address modify_pending_order_items
modify_pending_order_payment modify_user_address return_delivered_order_items"""
_TELECOM = """disable_roaming enable_roaming refuel_data resume_line suspend_line send_payment_request make_payment
toggle_airplane_mode toggle_data toggle_roaming toggle_data_saver_mode toggle_wifi toggle_wifi_calling
set_network_mode_preference reseat_sim_card reset_apn_settings set_apn_settings reboot_device grant_app_permission
connect_vpn disconnect_vpn"""
_DOJO = """send_email delete_email create_calendar_event cancel_calendar_event reschedule_calendar_event
add_calendar_event_participants append_to_file delete_file create_file share_file send_money schedule_transaction
update_scheduled_transaction update_password update_user_info reserve_hotel reserve_car_rental reserve_restaurant
add_user_to_channel send_direct_message send_channel_message invite_user_to_slack remove_user_from_slack post_webpage"""
KNOWN_CHANGING: dict[str, frozenset[str]] = {
    "tau-bench": frozenset((_AIRLINE + "\n" + _RETAIL).split()),
    "tau2": frozenset("\n".join((_AIRLINE, _RETAIL, _TELECOM, "create_task update_task_status")).split()),
    "agentdojo": frozenset(_DOJO.split()),
}
"""Tools that change the world, by the format of the log; names that are not listed are told by their words."""

_READS_TEXT = """
ask browse calculate check compare compute count describe display download evaluate fetch find get glob google grep
inspect is list look lookup ls open plan preview print query read retrieve scan scrape search see show think
validate verify view visit wait
"""
_READS = frozenset(_READS_TEXT.split())
_HANDS_OVER = re.compile(
    r"human|escalat|hand_?off|hand_?over|to_agent|to_operator|ask_user|respond|reply_to_user", re.I
)
_WRITES_TEXT = """
accept activate add adjust append apply approve archive assign authorize block book buy cancel change charge clear
close commit complete confirm connect copy create deactivate debit decline delete deploy disable disconnect edit
enable exchange execute file finish grant insert install invite issue kill mark merge modify move order patch pay
place post publish purchase push put reboot refill refuel refund register reject remove rename replace reply
reschedule reseat reserve reset restart resume return revoke save schedule sell send set share sign start stop
submit subscribe suspend switch terminate toggle transfer trigger undo unlock unset update upgrade upload withdraw
write
"""
_WRITES = frozenset(_WRITES_TEXT.split())
_INWARD = frozenset({"ask", "calculate", "compute", "plan", "think", "wait"})
_ENDING = frozenset({"answer", "as", "complete", "done", "end", "exit", "final", "finish", "mark", "submit", "task"})
"""Words of tools that only say that the agent is done: `submit`, `mark_task_complete`; submit_order is none."""
_GIVES_IN = frozenset((word,) for word in ("answer", "complete", "done", "end", "exit", "final", "finish", "submit"))
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a tool's name: `cancelOrder` and `cancel_order` both give cancel, order."""
    return tuple(w.lower() for w in _WORDS.findall(name))


@lru_cache(maxsize=4096)
def is_hand_over(name: str) -> bool:
    """Whether a tool hands over to people or to another agent, judged by its name."""
    return _HANDS_OVER.search(name) is not None


@lru_cache(maxsize=4096)
def ends_by_name(name: str) -> bool:
    """Whether a tool gives the work in, as its name begins: `submit_patch`, `finish`."""
    return words_of(name)[:1] in _GIVES_IN


@lru_cache(maxsize=4096)
def changes_by_name(name: str) -> bool | None:
    """Whether a tool changes the world, judged by its name; None where the name does not show it."""
    if is_hand_over(name) or _ENDING.issuperset(words_of(name)):
        return False
    for word in words_of(name):  # the first verb counts: get_update_history reads
        if word in _READS:
            return False
        if word in _WRITES:
            return True
    return None


def reads_world(name: str) -> bool:
    """Whether a tool reads the world, judged by its name: it does not only think, calculate or ask."""
    words = words_of(name)
    inward = not _INWARD.isdisjoint(words) or _ENDING.issuperset(words)
    return changes_by_name(name) is False and not is_hand_over(name) and not inward


class Changing:
    """Distinguishes calls that change the world from reads and hand-overs."""

    def __init__(self, facts: Facts, format: str, expected: Iterable[str] = ()) -> None:
        """`format` is that of the log; `expected` are the names in the reference, which count unless they read."""
        self._declared = facts.changing
        self._reads_count = facts.reads_count
        self._known = KNOWN_CHANGING.get(format, frozenset())
        self._expected = frozenset(expected)

    def __call__(self, name: str) -> bool:
        """Whether a call of this tool changes the world."""
        if self._declared is not None:
            return name in self._declared
        if name in self._known or (self._reads_count and name in self._expected):
            return True
        told = changes_by_name(name)
        return name in self._expected if told is None else told
