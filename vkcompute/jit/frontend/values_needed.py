"""Arguments whose values a kernel is compiled for, as sizes of shared arrays depend on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.errors import KernelError


class Fixed(NamedTuple):
    """The part of a signature for an int that is known at compile time."""

    value: Any


class ValuesNeededError(KernelError):
    """The error of a kernel that is compiled for types, but needs the values of some arguments.

    Attributes:
        positions: those of the arguments.
    """

    def __init__(self, message: str, positions: Collection[int]) -> None:
        super().__init__(message)
        self.positions = frozenset(positions)


def with_values(signature: Sequence[Any], args: Sequence[Any], positions: Collection[int]) -> tuple[Any, ...]:
    """Returns a signature with the values of the arguments at some positions, as far as they are ints."""
    return tuple(
        [
            Fixed(arg) if at in positions and isinstance(arg, (int, np.integer)) else kind
            for at, (kind, arg) in enumerate(zip(signature, args, strict=True))
        ]
    )
