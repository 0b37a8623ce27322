"""What `diff` and `divergence` both say of a pair of traces, computed and named in one place."""

from __future__ import annotations

from typing import Literal, TypedDict

import msgspec

from ethogram.measures.manifestation import Manifestation, ManifestationGroup
from ethogram.measures.noise_floor import AgainstFloor

from .pair import PairFacts

Overhead = float | Literal["unavailable"]


class EditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Edits that turn the first trace into the second."""

    substitutions: int
    insertions: int
    deletions: int


class PairFields(TypedDict):
    """Fields that `DiffResult` and `PairRow` share; no base class, for its fields would come first in their JSON."""

    d_norm: float | None
    t_star: int | None
    t_star_norm: float | None
    edits: EditCounts | None
    control_flow_changes: int | None
    answer_changed: bool | None
    recovered: bool | None
    manifestation: Manifestation
    group: ManifestationGroup
    rule: str
    token_overhead: Overhead
    within_noise_floor: bool | None
    tail_probability: float | None


def pair_fields(facts: PairFacts, beside: AgainstFloor) -> PairFields:
    """The fields of a pair, from its facts and its distance beside the floor.

    Where neither trace has a step, distance, edits and control flow are null: they are unavailable, not 0.
    """
    found, shown = facts.divergence, facts.showing
    known = found.d_norm is not None
    return PairFields(
        d_norm=found.d_norm,
        t_star=found.t_star,
        t_star_norm=found.t_star_norm,
        edits=EditCounts(**found.edits._asdict()) if known else None,
        control_flow_changes=facts.flow.total if known else None,
        answer_changed=facts.answer_changed,
        recovered=facts.recovered,
        manifestation=shown.manifestation,
        group=shown.group,
        rule=shown.rule,
        token_overhead="unavailable" if facts.token_overhead is None else facts.token_overhead,
        within_noise_floor=beside.within_noise_floor,
        tail_probability=beside.tail_probability,
    )
