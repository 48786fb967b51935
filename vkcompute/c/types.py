"""C's types of numbers, and its conversions, by dtypes.

The data model is that of CUDA on Linux (LP64): `char` is signed, `long` and `long long` have 64 bits. These two differ
in rank only, and no conversion between 64-bit types depends on it. Rules are those of C11, 6.3.1, where C++17 agrees;
a comparison is a bool, as in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

DType = np.dtype[Any]

BOOL, CHAR, INT, UNSIGNED, LONG, ULONG, HALF, FLOAT, DOUBLE, FLOAT_COMPLEX, DOUBLE_COMPLEX = map(
    np.dtype,
    ("bool", "int8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"),
)  # fmt: skip
_SINGLE_WORDS = {
    "bool": "bool", "float": "float32", "double": "float64", "size_t": "uint64", "ssize_t": "int64",
    "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64", "half": "float16", "__half": "float16",
    "float16": "float16", "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64",
    "longlong": "int64", "ulonglong": "uint64",
    **{f"{name}{end}": name for end in ("", "_t") for name in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    )},
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
"""dtypes of types of one word."""
_INTEGER_WORDS = ("signed", "unsigned", "char", "short", "int", "long")
QUALIFIERS = ("const", "volatile", "register")
NAMES = frozenset({*_SINGLE_WORDS, *_INTEGER_WORDS, "complex"})
"""Words with which a type begins."""
DEFINED = frozenset(_SINGLE_WORDS) - {"bool", "float", "double"}
"""Types that a header defines: behind other words of a type, they are the name that is declared."""


def named(words: Sequence[str]) -> DType | None:
    """Returns the dtype of a type such as `unsigned long int`, in any order of words; None for others."""
    if len(words) == 1 and words[0] in _SINGLE_WORDS:
        return np.dtype(_SINGLE_WORDS[words[0]])
    if sorted(words) == ["double", "long"]:
        return DOUBLE  # as on a GPU
    if not words or any(word not in _INTEGER_WORDS for word in words):
        return None
    sizes = sorted(word for word in words if word in ("char", "short", "long"))
    bits = {("char",): 8, ("short",): 16, (): 32, ("long",): 64, ("long", "long"): 64}.get(tuple(sizes))
    is_repeated = any(words.count(word) > 1 for word in words if word != "long")
    signs = [word for word in words if word in ("signed", "unsigned")]
    if bits is None or is_repeated or len(signs) > 1 or (bits == 8 and "int" in words):
        return None
    return np.dtype(f"{'u' if 'unsigned' in words else ''}int{bits}")


def promoted(kind: DType) -> DType:
    """Returns the type of `+x`: the integer promotions (6.3.1.1); a half becomes a float."""
    if kind.kind in "biu" and kind.itemsize < INT.itemsize:
        return INT
    return FLOAT if kind == HALF else kind


def common(one: DType, other: DType) -> DType:
    """Returns the type of `x + y`: the usual arithmetic conversions (6.3.1.8)."""
    one, other = promoted(one), promoted(other)
    if "c" in (one.kind, other.kind):
        return DOUBLE_COMPLEX if DOUBLE in (part(one), part(other)) else FLOAT_COMPLEX
    if "f" in (one.kind, other.kind):
        return DOUBLE if DOUBLE in (one, other) else FLOAT
    if one.itemsize != other.itemsize:
        return max(one, other, key=lambda kind: kind.itemsize)
    return one if one.kind == "u" else other


def part(kind: DType) -> DType:
    """Returns the type of the parts of a complex number; that of other numbers."""
    return {FLOAT_COMPLEX: FLOAT, DOUBLE_COMPLEX: DOUBLE}.get(kind, kind)


def floating(*kinds: DType) -> DType:
    """Returns the type of functions such as `sqrt` and `pow`: that of the arguments; integers count as doubles.

    C++17, 29.9.1.
    """
    counted = [DOUBLE if kind.kind in "biu" else kind for kind in kinds]
    result = promoted(counted[0])
    for kind in counted[1:]:
        result = common(result, kind)
    return result


def constant(value: Any, kind: DType) -> Any:
    """Returns a number converted to a type; integers wrap."""
    if isinstance(value, int) and kind.kind in "iu":
        return np.array(value & (2 ** (8 * kind.itemsize) - 1), f"u{kind.itemsize}").view(kind)[()]
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(kind)[()]


def literal_type(value: int, *, unsigned: bool, long: bool, decimal: bool) -> DType | None:
    """Returns the type of an integer literal (6.4.4.1), in CUDA's reading; None for one that no type holds.

    A decimal literal that exceeds `long` is unsigned there.
    """
    kinds = [kind for kind in (INT, UNSIGNED, LONG, ULONG) if not (long and kind.itemsize < LONG.itemsize)]
    if unsigned:
        kinds = [kind for kind in kinds if kind.kind == "u"]
    elif decimal:
        kinds = [kind for kind in kinds if kind.kind == "i"] + [ULONG]
    return next((kind for kind in kinds if value <= np.iinfo(kind).max), None)
