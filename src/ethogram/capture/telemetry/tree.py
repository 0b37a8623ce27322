"""The spans of one trace as a tree: order, agents, spans that run in parallel, and duplicates of one call."""

from __future__ import annotations

from collections import Counter

from .kinds import Outline

_WORK = frozenset({"tool", "agent", "retrieval", "memory", "handoff"})


class Tree:
    """Positions of spans, in the order in which they came; parents by id, the first span of an id counts."""

    def __init__(self, outlines: dict[int, Outline]) -> None:
        """Find parents; cycles of parents are cut where they close."""
        self._spans = outlines
        self._first: dict[str, int] = {}
        for position, span in outlines.items():
            if span.span_id:
                self._first.setdefault(span.span_id, position)
        self._parent = {p: self._first.get(s.parent_id or "") for p, s in outlines.items()}
        self._depth: dict[int, int] = {}
        for position in outlines:
            self._place(position)
        self.moved: dict[int, str | None] = {}
        """Spans that hang beside the model call under which a framework had put them, with their new parent."""
        self._raised: dict[int, list[str]] = {}
        if not all(s.seq is not None for s in outlines.values()):
            self._move()
        self.order = self._ordered()
        self._rank = {position: i for i, position in enumerate(self.order)}
        self._agent = self._agents()
        self.lanes = self._find_lanes()

    def depth(self, position: int) -> int:
        """How many spans stand above."""
        return self._depth[position]

    def agent(self, position: int) -> Outline | None:
        """The agent span that a span belongs to: itself, or the nearest above."""
        found = self._agent[position]
        return None if found is None else self._spans[found]

    def lane(self, position: int) -> str:
        """The lane of the agent that a span belongs to."""
        found = self._agent[position]
        return "" if found is None else self.lanes.get(found, "")

    def is_of_a_tool(self, position: int, error: str) -> bool:
        """Whether the error of a model call is that of a tool which ran inside it, and only passed through."""
        return any(error.endswith(e) or e.endswith(error) for e in self._raised.get(position, ()))

    def same_calls(self) -> dict[int, int]:
        """Model spans that repeat another one (same response, neither inside the other), each with the one kept."""
        groups: dict[str, list[int]] = {}
        for position in self.order:
            if self._spans[position].response:
                groups.setdefault(self._spans[position].response, []).append(position)
        repeats: dict[int, int] = {}
        for group in groups.values():
            if len(group) > 1:
                above = {up for position in group for up in self._above(position)}
                leaves = [p for p in group if p not in above]
                best = max(leaves, key=lambda p: (self._spans[p].weight, -self._rank[p]))
                repeats.update({p: best for p in leaves if p != best})
        return repeats

    def _place(self, position: int) -> None:
        path: list[int] = []
        here: int | None = position
        while here is not None and here not in self._depth:
            self._depth[here] = -1  # on the way
            path.append(here)
            above = self._parent[here]
            if above is not None and self._depth.get(above) == -1:  # the way leads back to itself
                self._parent[here] = above = None
            here = above
        depth = -1 if here is None else self._depth[here]
        for step in reversed(path):
            depth += 1
            self._depth[step] = depth

    def _move(self) -> None:
        """Tools and agents that run "inside" a model call (its span is open while they run) go beside it.

        A model call that holds another model call is a wrapper and keeps what it holds.
        """
        kinds = {p: s.kind for p, s in self._spans.items()}
        holder: dict[int, int | None] = {}
        for p in sorted(self._spans, key=lambda p: self._depth[p]):
            above = self._parent[p]
            holder[p] = holder[above] if above is not None and kinds[above] == "other" else above
        wrappers = {holder[p] for p, kind in kinds.items() if kind == "model"}
        for p, kind in kinds.items():
            above = holder[p]
            if kind in _WORK and above is not None and kinds[above] == "model" and above not in wrappers:
                self._parent[p] = self._parent[above]
                self.moved[p] = self._spans[above].parent_id
                if self._spans[p].error:
                    self._raised.setdefault(above, []).append(self._spans[p].error)

    def _above(self, position: int) -> list[int]:
        found: list[int] = []
        here = self._parent[position]
        while here is not None:
            found.append(here)
            here = self._parent[here]
        return found

    def _ordered(self) -> list[int]:
        """By our own number where every span has one; else by start, parents before children, then as they came."""
        spans = self._spans
        if all(s.seq is not None for s in spans.values()):
            return sorted(spans, key=lambda p: (spans[p].seq or 0, p))
        starts: dict[int, int] = {}
        for position in sorted(spans, key=lambda p: self._depth[p]):
            own, above = spans[position].start_ns, self._parent[position]
            starts[position] = own if own is not None else starts[above] if above is not None else 0
        return sorted(spans, key=lambda p: (starts[p], self._depth[p], p))

    def _agents(self) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for position in sorted(self._spans, key=lambda p: self._depth[p]):
            above = self._parent[position]
            is_agent = self._spans[position].kind == "agent"
            found[position] = position if is_agent else None if above is None else found[above]
        return found

    def _find_lanes(self) -> dict[int, str]:
        """An agent has its own lane where it runs beside another one, or below one that speaks itself.

        An agent that merely wraps others shares its lane with them, and agents that take over from each other
        share it too: they go on with the same conversation.
        """
        over = {p: self._agent[up] if (up := self._parent[p]) is not None else None for p in self._spans}
        speaking = {over[p] for p, s in self._spans.items() if s.kind == "model"}
        agents = [p for p in self.order if self._spans[p].kind == "agent"]
        siblings: dict[int | None, list[int]] = {}
        for p in agents:
            siblings.setdefault(over[p], []).append(p)
        beside = {p for group in siblings.values() for p in self._overlapping(group)}
        lanes: dict[int, str] = {}
        names: Counter[str] = Counter()
        for p in sorted(agents, key=lambda a: (self._depth[a], self._rank[a])):
            above = over[p]
            if p in beside or (above is not None and above in speaking):
                name = self._spans[p].agent or "agent"
                names[name] += 1
                lanes[p] = name if names[name] == 1 else f"{name}#{names[name]}"
            else:
                lanes[p] = "" if above is None else lanes[above]
        return lanes

    def _overlapping(self, group: list[int]) -> set[int]:
        """Those of a group that run at the same time as another one."""
        found: set[int] = set()
        latest: tuple[int, int] | None = None
        for p in group:  # in order of start
            start, end = self._spans[p].start_ns, self._spans[p].end_ns
            if start is None or end is None:
                continue
            if latest is not None and start < latest[0]:
                found.update((latest[1], p))
            if latest is None or end > latest[0]:
                latest = (end, p)
        return found
