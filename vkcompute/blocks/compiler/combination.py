"""Assertions in the functions by which reductions and scans combine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Builder, Value
from vkcompute.ir.function import Region

_MOST = 31
"""Assertions of a function: each has a bit of an int32."""


class Failure(NamedTuple):
    """An assertion.

    Attributes:
        fails: True where it does not hold.
        text: of the program.
        location: the error at its place, with "\\0" for the message.
    """

    fails: Value
    text: str
    location: str


@dataclass
class Combination:
    """The function of a reduction or scan while it is built. Its assertions are reported behind the reduction.

    Attributes:
        region: that of the function's body.
        failures: its assertions.
    """

    region: Region
    failures: list[Failure]

    def add(self, builder: Builder, failure: Failure) -> None:
        """Notes an assertion.

        Raises:
            UnsupportedError: it is in a branch or a loop, or there are too many.
        """
        if builder.checkpoint()[0] is not self.region:
            raise UnsupportedError(
                "an assertion in the function of a reduction or scan is in no branch or loop; write its condition as "
                "tl.device_assert(condition, text, mask)"
            )
        if len(self.failures) == _MOST:
            raise UnsupportedError(
                f"the function of a reduction or scan has at most {_MOST} assertions; join some by &"
            )
        self.failures.append(failure)


def failed(builder: Builder, failures: Sequence[Failure], *before: Value) -> Value:
    """Returns a bit for each assertion that fails here, or that has failed in the bits of operands, int32."""
    bits: Value = builder.compute("or", *before)
    for at, failure in enumerate(failures):
        bit = builder.compute("shl", builder.cast(failure.fails, INT32), builder.const(at, INT32))
        bits = builder.compute("or", bits, bit)
    return bits
