"""Grids: named, typed parameters of a world, every combination that the constraints allow. Inert."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import compress, pairwise, product
from typing import Any

import msgspec

from ethogram.errors import BadInput, NotFound
from ethogram.plans.episode import Condition
from ethogram.traces import digest

MOST_POINTS = 1_000_000
Value = bool | int | float | str
Settings = dict[str, Value]


ROUND = "round_num"
"""Where the facts of a grid world's episodes say in which round these were bought."""


def point_name(point: int) -> str:
    """The name of a point, as tasks and conditions have it: `g0012`."""
    return f"g{point:04d}"


def named_point(name: str) -> int | None:
    """The point that a name means; None if it names no point."""
    return int(name[1:]) if name[:1] == "g" and name[1:].isdecimal() else None


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting of a world: its name and values; without an order they are categories."""

    name: str
    values: tuple[Value, ...]
    ordered: bool = True

    def meant(self, given: Any) -> Value | None:
        """The value that somebody means: the value itself, or how a table writes it; None where it is neither."""
        if given in self.values:
            return self.values[self.values.index(given)]
        return next((value for value in self.values if str(given).lower() in _written(value)), None)


class Grid(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """All combinations in the order of the parameters, the last one fastest; constraints take some out.

    A constraint is a comparison of parameters, such as `noise + ambiguity <= 4`.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[str, ...] = ()
    version: str = "1"

    def __post_init__(self) -> None:
        """Refuse what cannot be explored, before anything runs."""
        if not self.parameters:
            raise BadInput("the grid has no parameters; name at least one with its values")
        names = [p.name for p in self.parameters]
        for name in names:
            if not name.isidentifier():
                raise BadInput(
                    f"the grid's parameter {name!r} is not a name: use letters, digits and '_'",
                    where=f"the parameter {name!r}",
                )
            if names.count(name) > 1:
                raise BadInput(
                    f"the grid names the parameter {name!r} twice; give every parameter once",
                    where=f"the parameter {name!r}",
                )
        for parameter in self.parameters:
            _check_values(parameter)
        size = math.prod(len(p.values) for p in self.parameters)
        if size > MOST_POINTS:
            raise BadInput(
                f"the grid has {size:,} points and at most {MOST_POINTS:,} can be explored; use fewer values"
            )
        for constraint in self.constraints:
            _compiled(constraint, tuple(names))

    @property
    def full_size(self) -> int:
        """Points before constraints."""
        return math.prod(len(p.values) for p in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(p.name for p in self.parameters)

    @property
    def places(self) -> Sequence[int]:
        """For each point its place in the full product; points are numbered in this order."""
        found: Sequence[int] | None = self.__dict__.get("_places")
        if found is None:
            found = self._allowed() if self.constraints else range(self.full_size)
            if not len(found):
                raise BadInput("the grid is empty: its constraints allow no point; loosen one of them")
            self.__dict__["_places"] = found
        return found

    def _allowed(self) -> list[int]:
        rules = [_compiled(c, self.names) for c in self.constraints]
        rows = product(*(p.values for p in self.parameters))
        keep = (all(rule(dict(zip(self.names, row, strict=True))) for rule in rules) for row in rows)
        return list(compress(range(self.full_size), keep))

    def __len__(self) -> int:
        return len(self.places)

    def level(self, point: int) -> tuple[int, ...]:
        """Which value of each parameter a point has."""
        place, found = self.places[point], []
        for parameter in reversed(self.parameters):
            place, at = divmod(place, len(parameter.values))
            found.append(at)
        return tuple(reversed(found))

    def levels(self) -> Any:
        """All levels, one row per point: a numpy array."""
        import numpy as np

        sizes = [len(p.values) for p in self.parameters]
        return np.stack(np.unravel_index(np.asarray(self.places, dtype=np.int64), sizes), axis=1)

    def settings(self, point: int) -> Settings:
        """The settings of a point."""
        return {p.name: p.values[i] for p, i in zip(self.parameters, self.level(point), strict=True)}

    def condition(self, point: int) -> Condition:
        """A point as a condition: a named difference that the harness hands to the agent and its world."""
        return Condition(name=point_name(point), settings=dict(self.settings(point)))

    def find(self, settings: Mapping[str, Any]) -> int:
        """The point with these settings."""
        place = 0
        for name in settings:
            if name not in self.names:
                raise NotFound.named("parameter of the grid", name, list(self.names))
        for p in self.parameters:
            if p.name not in settings:
                raise BadInput(
                    f"the setting of {p.name!r} is not given; a point needs {', '.join(self.names)}",
                    where=f"the parameter {p.name!r}",
                )
            value = p.meant(settings[p.name])
            if value is None:
                known = ", ".join(map(str, p.values))
                raise BadInput(
                    f"{p.name} = {settings[p.name]!r} is not in the grid; its values are {known}",
                    where=f"the parameter {p.name!r}",
                )
            place = place * len(p.values) + p.values.index(value)
        found = _index(self.places, place)
        if found is None:
            raise BadInput("these settings are taken out of the grid by a constraint; choose a point that is in it")
        return found

    def neighbours(self, point: int) -> Iterator[int]:
        """Points that differ by one step of one parameter (or by one category)."""
        at = self.level(point)
        for d, p in enumerate(self.parameters):
            near = (at[d] - 1, at[d] + 1) if p.ordered else range(len(p.values))
            for level in near:
                if 0 <= level < len(p.values) and level != at[d]:
                    found = self._point_of((*at[:d], level, *at[d + 1 :]))
                    if found is not None:
                        yield found

    def _point_of(self, level: Sequence[int]) -> int | None:
        sizes = [len(p.values) for p in self.parameters]
        place = reduce(lambda whole, step: whole * step[0] + step[1], zip(sizes, level, strict=True), 0)
        return _index(self.places, place)

    @property
    def digest(self) -> str:
        """The hash of the grid: an exploration is never continued on another one."""
        return digest("grid", msgspec.json.encode(self, order="deterministic"))


def grid(
    values: Mapping[str, Sequence[Value]], *, categories: Sequence[str] = (), constraints: Sequence[str] = ()
) -> Grid:
    """A grid in one line: `grid({"noise": [0, 1, 2], "style": ["curt", "kind"]}, categories=["style"])`."""
    for name in categories:
        if name not in values:
            raise NotFound(
                f"the category {name!r} is not a parameter of the grid; it has {', '.join(values)}",
                what="parameter of the grid",
                name=name,
                known=list(values),
            )
    parameters = tuple(
        Parameter(
            name=name,
            values=tuple(v),
            ordered=name not in categories and all(isinstance(x, int | float) and not isinstance(x, bool) for x in v),
        )
        for name, v in values.items()
    )
    return Grid(parameters=parameters, constraints=tuple(constraints))


def grid_from(content: Any, where: str) -> Grid:
    """A grid from what a YAML or JSON file says: `parameters` (a list of values, or `values` and `ordered`)."""
    if not isinstance(content, Mapping) or not isinstance(content.get("parameters"), Mapping):
        raise BadInput(f"{where} is not a grid; write `parameters:` with a list of values under each name", where=where)
    unknown = sorted(set(map(str, content)) - {"parameters", "constraints", "version"})
    if unknown:
        raise BadInput(
            f"{where} has an unknown key {unknown[0]!r}; a grid has parameters, constraints and version", where=where
        )
    found = []
    for name, said in content["parameters"].items():
        values, ordered = (said.get("values"), said.get("ordered")) if isinstance(said, Mapping) else (said, None)
        if not isinstance(values, list) or not all(isinstance(v, bool | int | float | str) for v in values):
            raise BadInput(f"the values of {name!r} in {where} are not a list of numbers or words", where=where)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        found.append(
            Parameter(name=str(name), values=tuple(values), ordered=numbers if ordered is None else bool(ordered))
        )
    rules = content.get("constraints") or []
    if not isinstance(rules, list) or not all(isinstance(r, str) for r in rules):
        raise BadInput(f"the constraints in {where} are not a list of comparisons", where=where)
    return Grid(parameters=tuple(found), constraints=tuple(rules), version=str(content.get("version", "1")))


def grid_from_columns(columns: Mapping[str, Sequence[Value]], where: str) -> Grid:
    """A grid from the values of each parameter at every point, points in the order of the grid.

    The points must be all combinations, the last parameter fastest: columns cannot say which constraint left one out.
    """
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise BadInput(f"{where} is not a grid; it needs one array per parameter, all of the same length", where=where)
    found = grid({name: list(dict.fromkeys(values)) for name, values in columns.items()})
    points = list(zip(*columns.values(), strict=True))
    if points != list(product(*(p.values for p in found.parameters))):
        raise BadInput(
            f"{where} has {len(points):,} points, which are not all {found.full_size:,} combinations of its values "
            "with the last parameter fastest; write a YAML grid with constraints instead",
            where=where,
        )
    return found


def _written(value: Value) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("yes", "true") if value else ("no", "false")
    return (value.lower(),) if isinstance(value, str) else (str(value), f"{value:,}", f"{value:.4g}")


def _check_values(parameter: Parameter) -> None:
    name, values = parameter.name, parameter.values
    if not values:
        raise BadInput(f"the grid is empty: {name!r} has no values; give at least one", where=f"the parameter {name!r}")
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        raise BadInput(
            f"the grid's parameter {name!r} has a value that is not a finite number", where=f"the parameter {name!r}"
        )
    if len(set(values)) < len(values):
        twice = next(v for i, v in enumerate(values) if v in values[:i])
        raise BadInput(
            f"the grid's parameter {name!r} has the value {twice!r} twice; give every value once",
            where=f"the parameter {name!r}",
        )
    if parameter.ordered and all(isinstance(v, int | float) for v in values):
        rising = all(a < b for a, b in pairwise(values))  # type: ignore[operator]
        falling = all(a > b for a, b in pairwise(values))  # type: ignore[operator]
        if not rising and not falling:
            raise BadInput(
                f"the values of {name!r} are neither rising nor falling; sort them, or say ordered: false",
                where=f"the parameter {name!r}",
            )


def _index(places: Sequence[int], place: int) -> int | None:
    if isinstance(places, range):
        return place if place in places else None
    from bisect import bisect_left

    at = bisect_left(places, place)
    return at if at < len(places) and places[at] == place else None


_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _compiled(text: str, names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    """A constraint as a function of settings; only comparisons, arithmetic, and, or, not."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise BadInput(
            f"the constraint {text!r} cannot be read; write for example: noise + ambiguity <= 4",
            where=f"the constraint {text!r}",
        ) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in names:
            raise BadInput(
                f"the constraint {text!r} names {node.id!r}, which is not a parameter of the grid",
                where=f"the constraint {text!r}",
            )

    def rule(settings: Mapping[str, Any]) -> bool:
        try:
            return bool(_value(tree, settings))
        except (TypeError, ZeroDivisionError, KeyError) as error:
            raise BadInput(
                f"the constraint {text!r} cannot be applied to a point: {error}", where=f"the constraint {text!r}"
            ) from None

    return rule


def _value(node: ast.AST, settings: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return settings[node.id]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(x, settings) for x in node.elts]
    if isinstance(node, ast.BoolOp):
        values = (_value(v, settings) for v in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, settings)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, settings), _value(node.right, settings))
    if isinstance(node, ast.Compare) and all(type(op) in _BINARY for op in node.ops):
        left = _value(node.left, settings)
        for op, right in zip(node.ops, node.comparators, strict=True):
            value = _value(right, settings)
            if not _BINARY[type(op)](left, value):
                return False
            left = value
        return True
    raise TypeError(f"{type(node).__name__.lower()} is not allowed in a constraint")
