"""The SPIR-V instruction for each operation on numbers."""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.assembly import Assembly
from vkcompute.ir.rules import ELEMENTARY, NO_INSTRUCTION
from vkcompute.ir.types import BOOL, SCALARS, Scalar, Type, Vector, element_of, vector

# Operation -> opcode by kind of number: ints, uints, floats and bools. Numbers of the SPIR-V specification 1.3.
_BINARY: dict[str, dict[str, int]] = {
    "add": {"i": 128, "u": 128, "f": 129},
    "sub": {"i": 130, "u": 130, "f": 131},
    "mul": {"i": 132, "u": 132, "f": 133},
    "div": {"i": 135, "u": 134, "f": 136},
    "rem": {"u": 137},
    "mod": {"u": 137},
    "and": {"i": 199, "u": 199, "b": 167},
    "or": {"i": 197, "u": 197, "b": 166},
    "xor": {"i": 198, "u": 198, "b": 165},
    "shl": {"i": 196, "u": 196},
    "shr": {"i": 195, "u": 194},
    "eq": {"i": 170, "u": 170, "f": 180, "b": 164},
    "ne": {"i": 171, "u": 171, "f": 183, "b": 165},
    "lt": {"i": 177, "u": 176, "f": 184},
    "le": {"i": 179, "u": 178, "f": 188},
    "gt": {"i": 173, "u": 172, "f": 186},
    "ge": {"i": 175, "u": 174, "f": 190},
}
_UNARY: dict[str, dict[str, int]] = {
    "neg": {"i": 126, "f": 127},
    "not": {"i": 200, "u": 200, "b": 168},
    "isnan": {"f": 156},
    "isinf": {"f": 157},
}
# The same for instructions of GLSL.std.450.
_STANDARD: dict[str, dict[str, int]] = {
    "min": {"f": 37, "u": 38, "i": 39},
    "max": {"f": 40, "u": 41, "i": 42},
    "abs": {"f": 4, "i": 5},
    "sign": {"f": 6, "i": 7},
    **{
        name: {"f": number}
        for name, number in {
            "round": 2, "trunc": 3, "floor": 8, "ceil": 9, "sin": 13, "cos": 14, "tan": 15, "asin": 16, "acos": 17,
            "atan": 18, "sinh": 19, "cosh": 20, "tanh": 21, "asinh": 22, "acosh": 23, "atanh": 24, "atan2": 25,
            "pow": 26, "exp": 27, "log": 28, "exp2": 29, "log2": 30, "sqrt": 31, "rsqrt": 32,
        }.items()
    },
}  # fmt: skip
GROUP_NON_UNIFORM, _VOTE, _ARITHMETIC, _BALLOT, _SHUFFLE = 61, 62, 63, 64, 65  # capabilities
_SUBGROUP_SCOPE = 3
# Operation of a subgroup -> what the module needs, opcode.
_TOGETHER = {
    "elect": (GROUP_NON_UNIFORM, 333), "all": (_VOTE, 334), "any": (_VOTE, 335), "broadcast": (_BALLOT, 337),
    "broadcast_first": (_BALLOT, 338), "ballot": (_BALLOT, 339), "shuffle": (_SHUFFLE, 345),
    "shuffle_xor": (_SHUFFLE, 346),
}  # fmt: skip
_REDUCTIONS: dict[str, dict[str, int]] = {
    "add": {"i": 349, "u": 349, "f": 350},
    "mul": {"i": 351, "u": 351, "f": 352},
    "min": {"i": 353, "u": 354, "f": 355},
    "max": {"i": 356, "u": 357, "f": 358},
    "and": {"i": 359, "u": 359, "b": 362},
    "or": {"i": 360, "u": 360, "b": 363},
    "xor": {"i": 361, "u": 361, "b": 364},
}
_GROUP_OPERATIONS = ("", "inclusive_", "exclusive_")  # by number: reduce, inclusive and exclusive scan
_EXT_INST, _SELECT, _BITCAST = 12, 169, 124
_U_CONVERT, _S_CONVERT, _F_CONVERT = 113, 114, 115
# (from, to) -> opcode, where one of them is a float
_CONVERT = {"fu": 109, "fi": 110, "if": 111, "uf": 112, "ff": _F_CONVERT}


def arithmetic(out: Assembly, code: str, result: Type, kind: Type, operands: list[int]) -> int:
    """The id of an operation on one or two values of type `kind`."""
    letter = element_of(kind).kind
    if code in ("rem", "mod") and letter == "i":
        return _remainder(out, code, result, *operands)
    table = _BINARY if len(operands) == 2 else _UNARY
    if code in table:
        return out.value(table[code][letter], result, *operands)
    if code in NO_INSTRUCTION or (code in ELEMENTARY and element_of(kind).bits == 64):
        raise IrError(f"{code} of {kind} has no instruction; replace it before lowering")
    return out.value(_EXT_INST, result, out.standard, _STANDARD[code][letter], *operands)


def _remainder(out: Assembly, code: str, kind: Type, one: int, other: int) -> int:
    """Of a division that truncates, or for "mod" rounds down. OpSRem and OpSMod are undefined for negative numbers."""

    def value(name: str, *operands: int) -> int:
        return out.value(_BINARY[name]["i"], kind, *operands)

    rest = value("sub", one, value("mul", value("div", one, other), other))
    if code == "rem":
        return rest
    zero = out.number(0, kind)
    bools = _shaped(BOOL, kind)
    signs_differ = out.value(_BINARY["lt"]["i"], bools, value("xor", rest, other), zero)
    there = out.value(_BINARY["ne"]["i"], bools, rest, zero)
    wrong = out.value(_BINARY["and"]["b"], bools, signs_differ, there)
    return out.value(_SELECT, kind, wrong, value("add", rest, other), rest)


def subgroup(out: Assembly, name: str, result: Type, args: list[int], *, constant: bool) -> int:
    """The id of what a subgroup computes; of a shuffle, `constant` says whether the lane is."""
    scope = out.uint(_SUBGROUP_SCOPE)
    if name == "shuffle" and constant:
        name = "broadcast"
    if name in _TOGETHER:
        capability, opcode = _TOGETHER[name]
        operands = (scope, *args)
    else:
        way, _, code = name.rpartition("_")
        capability, opcode = _ARITHMETIC, _REDUCTIONS[code][element_of(result).kind]
        operands = (scope, _GROUP_OPERATIONS.index(way and f"{way}_"), *args)
    out.require(GROUP_NON_UNIFORM)
    out.require(capability)
    return out.value(opcode, result, *operands)


def cast(out: Assembly, value: int, source: Type, target: Type) -> int:
    """The id of the number in another type."""
    old, new = element_of(source), element_of(target)
    if new is BOOL:
        return out.value(_BINARY["ne"][old.kind], target, value, out.number(0, source))
    if old is BOOL:
        return out.value(_SELECT, target, value, out.number(1, target), out.number(0, target))
    if "f" in (old.kind, new.kind):
        return out.value(_CONVERT[old.kind + new.kind], target, value)
    if old.bits != new.bits:  # widened by the sign that it has, and then taken for what is asked
        wide = _shaped(SCALARS[f"{'u' * (old.kind == 'u')}int{new.bits}"], target)
        value = out.value(_S_CONVERT if old.kind == "i" else _U_CONVERT, wide, value)
    return value if old.kind == new.kind else out.value(_BITCAST, target, value)


def _shaped(element: Scalar, like: Type) -> Type:
    return vector(element, like.n) if isinstance(like, Vector) else element
