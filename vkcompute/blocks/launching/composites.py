"""Composite arguments, tuples and tensor descriptors: flattened into leaves and a form.

A launch types, binds and copies each leaf as an argument of its own. The program is compiled for the form, and
assembles the composite values from the leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.types import TYPES, Constexpr
from vkcompute.blocks.language.block_pointers import make_tensor_descriptor
from vkcompute.blocks.launching.tensor_descriptor import TensorDescriptor
from vkcompute.compiled.composites import Form, Forms, form_of, made
from vkcompute.frontend.source import Definition
from vkcompute.frontend.unsupported import UnsupportedError


def is_composite(arg: Any) -> bool:
    """True for a tuple and for a tensor descriptor."""
    return isinstance(arg, (tuple, TensorDescriptor)) and not isinstance(arg, TYPES)


def flattened(args: Sequence[Any], constexprs: Sequence[bool]) -> tuple[Forms | None, tuple[Any, ...]]:
    """Returns the forms of arguments, None if none is composite, and their leaves.

    Args:
        constexprs: for each argument, True if it is a constant. Constants are leaves, tuples included.

    Raises:
        TypeError: the block shape of a descriptor has other elements than ints.
    """
    leaves: list[Any] = []
    forms = []
    for arg, constexpr in zip(args, constexprs, strict=True):
        is_leaf = constexpr or not is_composite(arg)
        forms.append(None if is_leaf else _form(arg, leaves))
        if is_leaf:
            leaves.append(arg)
    return (tuple(forms) if any(forms) else None), tuple(leaves)


def leaves_of(arg: Any) -> tuple[Any, ...]:
    """Returns the leaves of an argument; the argument itself if it is one."""
    return flattened([arg], [False])[1] if is_composite(arg) else (arg,)


def _form(arg: Any, leaves: list[Any]) -> Form | None:
    """Returns the form of a part of a composite argument, and adds its leaves to a list."""
    if not is_composite(arg):
        is_program = isinstance(getattr(arg, "definition", None), Definition)
        leaves.append(Constexpr(arg) if is_program else arg)
        return None
    if not isinstance(arg, TensorDescriptor):
        return form_of(arg, leaves, _form)
    if any(type(length) is bool or not isinstance(length, (int, np.integer)) for length in arg.block_shape):
        raise TypeError(f"the block shape of a tensor descriptor has ints; got {arg.block_shape!r}")
    parts = arg.base, tuple(arg.shape), tuple(arg.strides)
    constants = tuple(map(int, arg.block_shape)), arg.padding
    return Form(TensorDescriptor, tuple([_form(part, leaves) for part in parts]), constants)


def assembled(c: BlockCompiler, names: Sequence[str], forms: Forms, leaves: Iterable[Any]) -> list[Any]:
    """Returns the values of a program's parameters, assembled from the values of all leaves in order.

    Raises:
        UnsupportedError: `tl.make_tensor_descriptor` refuses the parts of a descriptor.
    """
    given = iter(leaves)
    return [_assembled(c, name, form, given) for name, form in zip(names, forms, strict=True)]


def _assembled(c: BlockCompiler, name: str, form: Form | None, leaves: Iterator[Any]) -> Any:
    if form is None:
        return next(leaves)
    parts = [_assembled(c, name, part, leaves) for part in form.parts]
    if form.kind is not TensorDescriptor:
        return made(form.kind, parts)
    try:
        return make_tensor_descriptor.expand(c, [*parts, *form.constants], {})
    except UnsupportedError as error:
        raise UnsupportedError(f"the tensor descriptor for {name}: {error}") from None
