"""A row of the registry: one function of elements, with all that any language or any compiler needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkcompute.dtypes import small_float
from vkcompute.errors import IrError

Compute = str | Callable[..., Any]
"""An operation of `ir/`, or a function of an `Emitter` and of elements."""
FUNCTIONS: dict[str, ElementFunction] = {}
"""The registry: name -> row. Importing `vkcompute.operations` fills it."""
ELEMENTARY = 24
"""Cost of a function that takes many instructions, compared with an addition."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementFunction:
    """One row.

    Attributes:
        name: NumPy's name; that of the library where NumPy has none.
        arity: the number of operands.
        types: the rule by which languages convert operands, as a name; each language has its own rules of these names.
        meaning: what it returns, one clause for the documentation.
        computes: kinds of numbers -> how it is computed. Kinds are letters: "b" bool, "i" int, "u" uint, "f" float,
            "c" complex. Operands have one type, but for a choice and comparisons of integers.
        sign: Python's operator.
        aliases: further names in NumPy and the Array API.
        math: names in Python's `math` and among its built-in functions; they take floats and give floats.
        blocks: names in the block language and its libdevice.
        public: where arrays have it: "numpy", "nn", or "" for nowhere.
        wide: True if 16-bit floats are computed in float32, since the function takes several steps.
        cost: of computing an element, compared with an addition.
        commutative: True if the result of several is the same in any order, but for rounding.
        identity: the operand that leaves the other one unchanged; "lowest" or "highest" for that of the dtype, None
            for none.
        most_ulp: the bound of the error for float32 and float64, in units of the last place; 0 where that is the
            device's or one rounding. Measured by tests/jit/test_float_functions.py (docs/kernels.md, "Accuracy").
    """

    name: str
    arity: int
    types: str
    meaning: str
    computes: Mapping[str, Compute]
    sign: str = ""
    aliases: tuple[str, ...] = ()
    math: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    public: str = "numpy"
    wide: bool = False
    cost: int = ELEMENTARY
    commutative: bool = False
    identity: Any = None
    most_ulp: float = 0

    def takes(self, kind: str) -> bool:
        """True if it is computed for numbers of a kind."""
        return kind in self.computes

    @property
    def gives_bools(self) -> bool:
        """True if results are bools, whatever the operands are."""
        return self.types in ("comparison", "tested")

    @property
    def code(self) -> str:
        """The operation of `ir/` that computes it for floats; "" if several do."""
        compute = self.computes.get("f")
        return compute if isinstance(compute, str) else ""

    def neutral(self, dtype: np.dtype[Any]) -> Any:
        """Returns the identity of an associative function, of a dtype; wraps -1, all bits, for unsigned integers."""
        identity = self.identity
        if identity in ("lowest", "highest"):
            if dtype.kind in "fc":
                sign = -math.inf if identity == "lowest" else math.inf
                identity = complex(sign, sign) if dtype.kind == "c" else sign
            else:
                limits = np.iinfo(dtype)
                identity = limits.min if identity == "lowest" else limits.max
        small = small_float(dtype)
        return np.array(identity).astype(dtype)[()] if small is None else small.type(identity)

    @property
    def docstring(self) -> str:
        """The documentation of the function of arrays."""
        return "\n\n".join(filter(None, (f"Returns {self.meaning}.", RESULTS.get(self.types, ""))))


RESULTS = {
    **dict.fromkeys(
        ("common", "numbers", "counted", "positive", "absolute", "rounded", "reciprocal", "conjugate"),
        "The result has the common dtype.",
    ),
    **dict.fromkeys(
        ("float", "nearest", "magnitude"),
        "The result is of the float dtype; of the default one for integers and bools.",
    ),
    **dict.fromkeys(("comparison", "tested"), "The result is of bools."),
    **dict.fromkeys(("bits", "integers"), "Operands are integers; the result has their common dtype."),
    "bit counts": "Operands are integers; the result is of uint8.",
}
"""Rule of types -> what the documentation says of the result."""


def define(
    name: str, arity: int, types: str, meaning: str, computes: Mapping[str, Compute], **others: Any
) -> ElementFunction:
    """Adds a row to the registry; `computes` may have several kinds in one key."""
    by_kind = {kind: compute for kinds, compute in computes.items() for kind in kinds}
    FUNCTIONS[name] = row = ElementFunction(name, arity, types, meaning, by_kind, **others)
    return row


def row_of(name: str) -> ElementFunction:
    """Returns the row of a function by its name or an alias.

    Raises:
        IrError: there is none.
    """
    known = FUNCTIONS.get(name) or next((row for row in FUNCTIONS.values() if name in row.aliases), None)
    if known is None:
        raise IrError(f"no function of elements {name!r}; see vkcompute/operations")
    return known


def public(where: str) -> Sequence[ElementFunction]:
    """Returns the functions that arrays have in a namespace: "numpy" or "nn"."""
    return [row for row in FUNCTIONS.values() if row.public == where]
