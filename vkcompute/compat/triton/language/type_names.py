"""Types by their names in signatures, as "*fp32", and by their bits."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.types import (
    DTYPES,
    BlockType,
    ConstexprType,
    DescriptorType,
    Dtype,
    PointerType,
    TupleType,
)

_BY_NAME = (
    {dtype.name: dtype for dtype in DTYPES.values()}
    | {f"i{bits}": DTYPES[f"int{bits}"] for bits in (1, 8, 16, 32, 64)}
    | {f"u{bits}": DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64)}
    | {"u1": DTYPES["int1"], "B": DTYPES["int1"]}
)


def str_to_ty(name: Any, constant: Any = None) -> Any:
    """Returns the type of a name in a signature.

    Args:
        name: "i32", "*fp32", "*kfp32" of a pointer through which nothing is written, "tensordesc<fp16[32, 64]>",
            "constexpr", or a tuple of names.
        constant: the value of "constexpr".

    Raises:
        KeyError: the name is none of these.
    """
    if isinstance(name, tuple):
        return TupleType(tuple([str_to_ty(item, constant) for item in name]))
    if name.startswith("*"):
        element = name.removeprefix("*")
        return PointerType(str_to_ty(element.removeprefix("k")), const=element.startswith("k"))
    if name.startswith("tensordesc<"):
        element, _, shape = name.removeprefix("tensordesc<").rstrip(">]").partition("[")
        lengths = tuple(map(int, shape.split(",")))
        sizes, steps = (TupleType((DTYPES[kind],) * len(lengths)) for kind in ("int32", "int64"))
        return DescriptorType(BlockType(str_to_ty(element), lengths), sizes, steps)
    return ConstexprType(constant) if name == "constexpr" else _BY_NAME[name]


def get_int_dtype(bitwidth: int, signed: bool) -> Dtype:
    """Returns the dtype of integers with this many bits, 1 to 64.

    Raises:
        ValueError: there is none.
    """
    name = "int1" if bitwidth == 1 else f"{'' if signed else 'u'}int{bitwidth}"
    if name not in DTYPES:
        raise ValueError(f"integers have 1, 8, 16, 32 or 64 bits; got {bitwidth}")
    return DTYPES[name]
