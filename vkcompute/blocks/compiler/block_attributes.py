"""Attributes of blocks, pointers, descriptors and types in block programs."""

from __future__ import annotations

import ast
from enum import Enum
from types import ModuleType, NoneType
from typing import Any

from vkcompute import ir, tile
from vkcompute.blocks.compiler import complex_blocks
from vkcompute.blocks.compiler.aggregates import Aggregate
from vkcompute.blocks.compiler.arithmetic import List, describe, is_sequence
from vkcompute.blocks.compiler.functions import DESCRIPTOR_METHODS, METHODS, PACKAGES, REMEDIES
from vkcompute.blocks.compiler.types import (
    OF_SCALAR,
    POINTERS,
    TYPES,
    Address,
    BlockPointer,
    BlockType,
    ConstexprType,
    Descriptor,
    DescriptorType,
    Dtype,
    Pointer,
    PointerType,
    TupleType,
)
from vkcompute.compiled.arguments import suggestion
from vkcompute.compiled.captured import PLAIN
from vkcompute.frontend.constants import is_named
from vkcompute.frontend.expressions import attribute
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import Complex, Number

_OF_POINTERS = (
    "store",
    "advance",
    "to",
    *("broadcast_to", "expand_dims", "permute", "ravel", "reshape", "trans", "view"),
    *[f"atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "xchg", "cas")],
)


class Method:
    """A method of a value, to be called."""

    def __init__(self, function: Any, owner: Any) -> None:
        self.function, self.owner = function, owner


def attribute_of(c: Any, node: ast.Attribute) -> Any:
    """Evaluates an attribute."""
    base, name = c.evaluator.value(node.value), node.attr
    if name == "value" and type(base) in (bool, int, float, str, NoneType, Dtype):  # the constant of a constexpr
        return base
    if isinstance(base, Number):
        return _of_block(c, base, name)
    if isinstance(base, Complex):
        return _of_complex(c, base, name)
    if isinstance(base, POINTERS):
        return _of_pointer(c, base, name)
    if isinstance(base, Aggregate) and name in base.methods:
        return Method(base.methods[name], base)
    if name == "type" and (type(base) in (bool, int, float) or (is_sequence(base) and not is_named(type(base)))):
        return _type_of(c, base)
    if type(base) in (bool, int, float) and (name in METHODS or name in ("dtype", "type", "shape")):
        return _of_block(c, c.number(c.cast(base, c.common_type(base).type)), name)
    if isinstance(base, TYPES):
        member = getattr(base, name, None)
        if member is None or name.startswith("_"):
            scalar = "; that of its elements may, as x.type.scalar" if isinstance(base, BlockType) else ""
            raise UnsupportedError(f"{base} has no attribute {name}{scalar}")
        return member
    if isinstance(base, ModuleType) and base.__name__.startswith(tuple(PACKAGES)) and not hasattr(base, name):
        _refuse_name(c, base, node)
    if is_sequence(base) and not is_named(type(base)):
        kind, (left, right) = ("list", "[]") if isinstance(base, List) else ("tuple", "()")
        longer = f"{left}*{ast.unparse(node.value)}, value{right}"
        raise UnsupportedError(
            f"{describe(base)} has no attribute {name}; its length is known at compile time: make another {kind}, "
            f"as {longer}"
        )
    if isinstance(base, PLAIN) and not isinstance(base, Enum):
        raise UnsupportedError(f"{describe(base)} has no attribute {name}; call functions, as tl.cast(x, tl.float32)")
    return attribute(c.evaluator, base, node)


def _type_of(c: Any, value: Any) -> Any:
    """Returns the type of a constant, of a tuple, or of an item of one."""
    if isinstance(value, Number):
        return _of_block(c, value, "type")
    if isinstance(value, POINTERS):
        return _of_pointer(c, value, "type")
    if is_sequence(value) and not _is_constant(value):
        return TupleType(tuple([_type_of(c, item) for item in value]))
    return ConstexprType(value)


def _is_constant(value: Any) -> bool:
    return type(value) in (bool, int, float) or (is_sequence(value) and all(map(_is_constant, value)))


def _refuse_name(c: Any, module: ModuleType, node: ast.Attribute) -> None:
    """Raises UnsupportedError for a name that a module of the language lacks, with the replacement."""
    name, path = node.attr, ast.unparse(node.value) or module.__name__.rpartition(".")[2]
    instead = REMEDIES.get(name)
    near = suggestion(name, getattr(module, "__all__", dir(module))) if instead is None else f"; write {instead}"
    raise UnsupportedError(f"{path} has no attribute {name}{near}")


def _of_pointer(c: Any, base: Pointer | BlockPointer | Descriptor | Address, name: str) -> Any:
    if isinstance(base, Address):
        has: dict[str, Any] = {"dtype": OF_SCALAR[ir.INT64], "type": OF_SCALAR[ir.INT64], "shape": ()}
        has |= {method: Method(METHODS[method], base) for method in ("to", "cast")}
    elif isinstance(base, Descriptor):
        has = {"shape": base.shape, "strides": base.strides, "block_shape": base.block.shape}
        has |= {"dtype": OF_SCALAR[base.array.element], "type": _type_of_descriptor(base)}
        has["block_type"] = has["type"].block_type
        has |= {method: Method(function, base) for method, function in DESCRIPTOR_METHODS.items()}
    else:
        kind, shape = PointerType(OF_SCALAR[base.array.element]), c.shape(base)
        whole = BlockType(kind, shape) if shape and isinstance(base, Pointer) else kind
        has = {"dtype": kind, "type": whole, "shape": shape}
        has |= {method: Method(METHODS[method], base) for method in METHODS if method in _OF_POINTERS}
        if name == "T":
            return METHODS["trans"].expand(c, [base], {})
    if name not in has:
        raise UnsupportedError(f"{describe(base)} has no attribute {name}; it has {', '.join(has)}")
    return has[name]


def _type_of_descriptor(base: Descriptor) -> DescriptorType:
    sizes, steps = (TupleType((OF_SCALAR[kind],) * len(base.shape)) for kind in (ir.INT32, ir.INT64))
    return DescriptorType(BlockType(OF_SCALAR[base.array.element], base.block.shape), sizes, steps)


def _of_block(c: Any, base: Number, name: str) -> Any:
    dtype, shape = OF_SCALAR[c.element_type(base)], c.shape(base)
    if name in ("dtype", "type"):
        return BlockType(dtype, shape) if shape and name == "type" else dtype
    if name == "shape":
        return shape
    if name == "numel":
        return base.value.type.n if isinstance(base.value.type, tile.Block) else 1
    if name == "T":
        return METHODS["trans"].expand(c, [base], {})
    if name in METHODS:
        return Method(METHODS[name], base)
    raise UnsupportedError(f"{describe(base)} has no attribute {name}; it has dtype, shape, T and {', '.join(METHODS)}")


def _of_complex(c: Any, base: Complex, name: str) -> Any:
    """Returns an attribute of a complex number: the methods of real ones that take it, and conj()."""
    methods = {method: function for method, function in METHODS.items() if function.emit_complex is not None}
    methods |= dict.fromkeys(("conj", "conjugate"), complex_blocks.conj)
    attribute = complex_blocks.attribute(c, base, name)
    if attribute is not None:
        return attribute
    if name == "T":
        return METHODS["trans"].expand(c, [base], {})
    if name not in methods:
        has = ", ".join(("real", "imag", "dtype", "shape", "T", *methods))
        raise UnsupportedError(f"{describe(base)} has no attribute {name}; it has {has}")
    return Method(methods[name], base)
