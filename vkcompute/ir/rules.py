"""What each operation takes and gives: the one place that the builder and the verifier ask.

| code | args | attribute |
|---|---|---|
| `load`, `store`, `length` | index; index, value; none | the Memory |
| `atomic`, `compare_exchange` | index, value; index, expected, new | (operation, Memory); the Memory |
| a name in BINARY or COMPARISONS | two of one type | |
| a name in UNARY | one | |
| `cast`, `bitcast` | one | the type |
| `select`, `vector`, `extract` | condition, one, other; the elements; a vector | `extract`: which element |
| `builtin` | | (name, axis) |
| `barrier` | | |
| `subgroup` | a value, for shuffles a lane, for "elect" none | a name in SUBGROUP |
| `if`, `loop` | condition; what is carried at first | |
| `yield`, `continue`, `break` | values | the last two: the loop |
| `return`, `unreachable` | | |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.errors import IrError
from vkcompute.ir.function import Memory, Value
from vkcompute.ir.types import BOOL, UINT32, Scalar, Type, Vector, element_of, vector

# Code -> the kinds of number that it takes.
BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max"), "iuf"),
    **dict.fromkeys(("and", "or", "xor"), "biu"),
    **dict.fromkeys(("mod", "shl", "shr"), "iu"),
    **dict.fromkeys(("pow", "atan2", "hypot"), "f"),
}
COMPARISONS = {**dict.fromkeys(("eq", "ne"), "biuf"), **dict.fromkeys(("lt", "le", "gt", "ge"), "iuf")}
UNARY = {
    **dict.fromkeys(("neg", "abs", "sign"), "if"),
    "not": "biu",
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "sqrt", "rsqrt"), "f"),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan"), "f"),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), "f"),
    **dict.fromkeys(("expm1", "log1p", "log10", "cbrt", "erf", "erfc", "gamma", "lgamma"), "f"),
}
TESTS = {"isnan": "f", "isinf": "f"}
NO_INSTRUCTION = frozenset({"hypot", "expm1", "log1p", "log10", "cbrt", "erf", "erfc", "gamma", "lgamma"})
ELEMENTARY = NO_INSTRUCTION | frozenset(
    {"pow", "atan2", "exp", "exp2", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan"}
    | {"sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
)
"""Functions for which other operations are put before a function is lowered: GLSL.std.450 has them for float16 and
float32 only, imprecisely, and some (NO_INSTRUCTION) not at all."""

_REDUCTIONS = ("add", "mul", "min", "max")
ATOMICS = frozenset({"add", "min", "max", "and", "or", "xor", "exchange"})
SIGNED = frozenset({"signed_min", "signed_max"})
"""Atomic operations on unsigned integers, which they take for signed ones."""
FLOAT_ATOMICS = {"exchange": "Atomics", "add": "AtomicAdd", "min": "AtomicMinMax", "max": "AtomicMinMax"}
"""Those of them that floats have, too -> how Vulkan's features for them end."""
SUBGROUP = {
    **dict.fromkeys([f"{way}{name}" for way in ("", "inclusive_", "exclusive_") for name in _REDUCTIONS], "iuf"),
    **dict.fromkeys(("and", "or", "xor"), "biu"),
    **dict.fromkeys(("shuffle", "shuffle_xor", "broadcast_first"), "biuf"),
    **dict.fromkeys(("ballot", "all", "any", "elect"), "b"),
}
"""What the invocations of a subgroup do together -> the kinds of number that it takes."""
BUILTINS = {
    **dict.fromkeys(("global_id", "local_id", "group_id", "n_groups"), 3),
    **dict.fromkeys(("local_index", "subgroup_size", "n_subgroups", "subgroup_id", "subgroup_local_id"), 1),
}
"""Name -> how many axes it has; all are uint32."""


def result_type(code: str, args: Sequence[Value], attribute: Any = None) -> Type | None:
    """The type of an operation's result, None where it has none.

    Raises:
        IrError: the operation does not take these.
    """
    kinds = [value.type for value in args]
    if code in BINARY or code in COMPARISONS:
        kind = _numbers(code, kinds, 2, (BINARY if code in BINARY else COMPARISONS)[code])
        return kind if code in BINARY else _bools(kind)
    if code in UNARY or code in TESTS:
        kind = _numbers(code, kinds, 1, (UNARY if code in UNARY else TESTS)[code])
        return kind if code in UNARY else _bools(kind)
    rule = _RULES.get(code)
    if rule is None:
        raise IrError(f"no operation {code!r}")
    return rule(code, kinds, attribute)


def _demand(condition: bool, code: str, kinds: Sequence[object], rule: str) -> None:
    if not condition:
        raise IrError(f"{code} {rule}; got {', '.join(map(str, kinds)) or 'nothing'}")


def _numbers(code: str, kinds: Sequence[Type], n: int, allowed: str) -> Type:
    _demand(len(kinds) == n and len(set(kinds)) == 1, code, kinds, f"takes {n} of one type")
    element = element_of(kinds[0])
    _demand(element.kind in allowed, code, kinds, f"takes numbers of kind {', '.join(allowed)}")
    return kinds[0]


def _bools(kind: Type) -> Type:
    return vector(BOOL, kind.n) if isinstance(kind, Vector) else BOOL


def _memory(code: str, kinds: list[Type], memory: Any) -> Type | None:
    _demand(isinstance(memory, Memory), code, kinds, f"works on a memory, not {memory!r}")
    if code == "length":
        _demand(not kinds, code, kinds, "takes no index")
        return UINT32
    wanted = {"load": 0, "store": 1, "atomic": 1, "compare_exchange": 2}[code]
    _demand(len(kinds) == wanted + 1 and _is_index(kinds[0]), code, kinds, f"takes an integer and {wanted} values")
    _demand(all(kind is memory.element for kind in kinds[1:]), code, kinds, f"takes values of {memory.element}")
    return None if code == "store" else memory.element


def _atomic(code: str, kinds: list[Type], attribute: Any) -> Type | None:
    name, memory = attribute if code == "atomic" else ("exchange", attribute)
    _demand(
        name in ATOMICS or (name in SIGNED and memory.element.kind == "u"),
        code,
        [name],
        f"is one of {', '.join(sorted(ATOMICS))}",
    )
    floats = name in FLOAT_ATOMICS and code == "atomic"
    element = memory.element
    fits = element.bits >= 32 and (element.kind in "iu" or (floats and element.kind == "f"))
    others = ", ".join(sorted(FLOAT_ATOMICS))
    _demand(fits, code, [element], f"works on integers of 32 or 64 bits ({others} on floats, too)")
    return _memory(code, kinds, memory)


def _is_index(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.kind in "iu" and kind.bits >= 32


def _cast(code: str, kinds: list[Type], target: Any) -> Type:
    _demand(len(kinds) == 1, code, kinds, "takes one value")
    source, element = element_of(kinds[0]), element_of(target)
    _demand(isinstance(kinds[0], Vector) == isinstance(target, Vector), code, [*kinds, target], "keeps the shape")
    if code == "bitcast":
        same = source.bits == element.bits and "b" not in (source.kind, element.kind)
        _demand(same, code, [*kinds, target], "keeps the number of bits")
    kind: Type = target
    return kind


def _select(code: str, kinds: list[Type], _: Any) -> Type:
    _demand(len(kinds) == 3 and kinds[0] is BOOL and kinds[1] is kinds[2], code, kinds, "takes a bool and two alike")
    return kinds[1]


def _vector(code: str, kinds: list[Type], _: Any) -> Type:
    first = kinds[0] if kinds else None
    alike = isinstance(first, Scalar) and set(kinds) == {first} and 2 <= len(kinds) <= 4
    _demand(alike, code, kinds, "takes 2 to 4 scalars of one type")
    return vector(element_of(kinds[0]), len(kinds))


def _extract(code: str, kinds: list[Type], index: Any) -> Type:
    fits = len(kinds) == 1 and isinstance(kinds[0], Vector) and 0 <= index < kinds[0].n
    _demand(fits, code, kinds, f"takes a vector that has an element {index}")
    return element_of(kinds[0])


def _builtin(code: str, kinds: list[Type], attribute: Any) -> Type:
    name, axis = attribute
    _demand(not kinds and name in BUILTINS and 0 <= axis < BUILTINS[name], code, [name, axis], "has no such name")
    return UINT32


def _subgroup(code: str, kinds: list[Type], name: Any) -> Type:
    _demand(name in SUBGROUP, code, [name], f"is one of {', '.join(SUBGROUP)}")
    if name in ("shuffle", "shuffle_xor"):
        _demand(len(kinds) == 2 and kinds[1] is UINT32, f"{code} {name}", kinds, "takes a value and a uint32")
    kind = BOOL if name == "elect" else _numbers(f"{code} {name}", kinds[:1], 1, SUBGROUP[name])
    return vector(UINT32, 4) if name == "ballot" else kind


def _condition(code: str, kinds: list[Type], _: Any) -> None:
    _demand(kinds == [BOOL], code, kinds, "takes one bool")


def _nothing(code: str, kinds: list[Type], _: Any) -> None:
    _demand(not kinds, code, kinds, "takes no values")


def _anything(code: str, kinds: list[Type], _: Any) -> None:
    """Values whose types are matched by what encloses them."""


_RULES = {
    **dict.fromkeys(("load", "store", "length"), _memory),
    **dict.fromkeys(("atomic", "compare_exchange"), _atomic),
    **dict.fromkeys(("cast", "bitcast"), _cast),
    "select": _select,
    "vector": _vector,
    "extract": _extract,
    "builtin": _builtin,
    "subgroup": _subgroup,
    "if": _condition,
    **dict.fromkeys(("barrier", "return", "unreachable"), _nothing),
    **dict.fromkeys(("loop", "yield", "continue", "break"), _anything),
}
