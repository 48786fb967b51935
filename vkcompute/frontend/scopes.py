"""Scopes of variables, and the edges of control flow while branches and loops are built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vkcompute import ir
from vkcompute.ir.builder import Mark


class UntypedError(Exception):
    """Raised by a read of a variable whose type is not known yet."""


@dataclass(frozen=True, slots=True)
class Unset:
    """A variable without a usable value.

    Attributes:
        why: the reason.
        unassigned: True if that is a path that does not assign it.
        untyped: True if it has a value whose type is not known yet; `why` is its name.
    """

    why: str
    unassigned: bool = False
    untyped: bool = False


NOTHING = Unset("it has no value", unassigned=True)


@dataclass(frozen=True, slots=True)
class Edge:
    """A predecessor of a join.

    Attributes:
        mark: the location of its terminator.
        env: its variables.
        end: appends the terminator, given the values to hand over.
    """

    mark: Mark
    env: dict[str, Any]
    end: Callable[..., None]


@dataclass(slots=True)
class LoopEdges:
    """A loop that is being built.

    Attributes:
        stores: returns how often the loop's text assigns to each name; None if that is unknown.
        start: the variables at the start of its body.
        kinds: the kinds of those that it carries.
        exits: edges out of the loop.
        continues: edges back to its start.
    """

    loop: ir.Loop
    stores: Callable[[], Counter[str]] | None
    start: dict[str, Any]
    kinds: dict[str, Any]
    exits: list[Edge] = field(default_factory=list)
    continues: list[Edge] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """A program or an inlined function that is being built.

    Attributes:
        inlined: True for a function, whose return does not end the program.
        loops: enclosing loops, the innermost last.
        env: its variables while a function that it calls is built, and at its end.
        constants: variables that enclosing loops and branches do not change, and which loops do not carry.
    """

    inlined: bool
    loops: list[LoopEdges] = field(default_factory=list)
    env: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
