"""Random kernels of all types, with barriers and subgroup operations, and functions of elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from vkcompute.gpu_report.items import Items, Session
from vkcompute.gpu_report.random_programs.checks import CHECKS

N_PROGRAMS = 300
_SEED = 40


def items() -> Items:
    """Returns the items by name: the kind and the number, from which a program follows."""
    return numbered(("programs", "groups", "warps", "formulas"), N_PROGRAMS)


def numbered(kinds: Sequence[str], n: int) -> Items:
    """Returns programs of these kinds in turns."""
    chosen = [(kinds[number % len(kinds)], number) for number in range(n)]
    return {f"{kind} {number}": partial(_checked, kind, number) for kind, number in chosen}


def _checked(kind: str, number: int, session: Session) -> dict[str, Any]:
    """Compares the results of a program, unless its numbers are beyond the types."""
    return {"compared": CHECKS[kind](session.gpu, lambda kernel: kernel, random_of(kind, number))}


def random_of(kind: str, number: int) -> Random:
    """Returns the random generator of a program, from which its text and its arguments follow."""
    return Random(f"{_SEED} {kind} {number}")
