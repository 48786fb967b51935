"""Block programs as `vkcompute compile` compiles them, for the types of a signature on the command line."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.blocks.launching.arguments import DEFAULTS
from vkcompute.blocks.launching.build import DIVISOR, ArrayType, BlockOptions, IntType, specialize
from vkcompute.blocks.launching.launched import Launched
from vkcompute.blocks.launching.program import JITFunction
from vkcompute.blocks.launching.tuning import Autotuner
from vkcompute.compiled.specialization import DEFAULTS as COMPILATION
from vkcompute.runtime.launching.imitated_gpu import Shader
from vkcompute.tile.target import Target

# The workgroups of AMD's GPUs; radv has subgroups of 64.
ON_AMD = Target(subgroup_size=64, max_invocations=1024, shared_nbytes=65536, overlays=True, stages=True)

_DTYPES = {"i1": "bool", "bf16": "bfloat16"} | {
    f"{letter}{bits}": f"{name}{bits}"
    for letter, name, sizes in (
        ("i", "int", (8, 16, 32, 64)),
        ("u", "uint", (8, 16, 32, 64)),
        ("fp", "float", (16, 32, 64)),
    )
    for bits in sizes
}
_NAMED = re.compile(r"(\w+) ?\((.*)\)")
_EXAMPLE = "--signature 'add(*fp32, *fp32, i32, BLOCK=1024)'"


def signature_of(name: str, given: Sequence[str]) -> str:
    """The signature of a program among those of the command line, of which one without a name is for all.

    Raises:
        ValueError: there is none.
    """
    for text in reversed(given):
        named = _NAMED.fullmatch(text.strip())
        if named is None or named[1] == name:
            return text if named is None else named[2]
    raise ValueError(f"{name} is a block program, compiled for types of its arguments; give them, as {_EXAMPLE}")


def shader(program: Launched, text: str, target: Target) -> Shader:
    """Compiles a program for a signature; an autotuned one with its first configuration.

    Args:
        text: in the order of the parameters, pointers as *fp32, numbers as i32, and values of constants; then values
            by name, and num_warps.

    Raises:
        ValueError: the signature does not fit the program.
        KernelError: block programs do not support something that the function does.
    """
    chosen: dict[str, Any] = {}
    while not isinstance(program, JITFunction):
        if isinstance(program, Autotuner):
            chosen = {**program.configs[0].all_kwargs(), **chosen}
        program = program.fn
    items, named = _items(program.__name__, text)
    n_warps = (chosen | named).get("num_warps", DEFAULTS.n_warps)
    constants, types = _bound(program, items, chosen | named)
    options = BlockOptions(n_warps, target, COMPILATION)
    compiled = specialize(program.definition, constants, types, options)
    emulated = b""
    if compiled.features:
        emulating = options.compiled_with(emulate_atomics=True)
        emulated = specialize(program.definition, constants, types, emulating).spirv
    return Shader(program.__name__, compiled.spirv, {}, compiled.features, emulated, compiled.subgroup_size)


def _items(name: str, text: str) -> tuple[list[str], dict[str, Any]]:
    """The items of a signature by position, and its values by name."""
    items, named = [], {}
    for item in filter(None, map(str.strip, text.split(","))):
        key, equals, value = item.partition("=")
        if equals:
            named[key.strip()] = _value(name, value.strip())
        else:
            items.append(item)
    return items, named


def _bound(
    program: JITFunction, items: Sequence[str], named: Mapping[str, Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """The constants and the types of a program's parameters, by position."""
    constants: dict[int, Any] = {}
    types: dict[int, Any] = {}
    rest = list(items)
    for at, parameter in enumerate(program.signature.parameters.values()):
        if parameter.name in named:
            constants[at] = named[parameter.name]
        elif rest:
            item = rest.pop(0)
            kind = None if program.parameters.constexprs[at] else _type(item)
            if kind is None:
                constants[at] = _value(program.__name__, item)
            else:
                types[at] = kind
        elif parameter.default is not inspect.Parameter.empty:
            constants[at] = parameter.default
        else:
            raise ValueError(f"the signature of {program.__name__} lacks {parameter.name}; give it, as {_EXAMPLE}")
    if rest:
        n_parameters = len(program.signature.parameters)
        raise ValueError(f"{program.__name__} has {n_parameters} parameters; the signature has {rest[0]!r} beyond them")
    return constants, types


def _type(item: str) -> Any:
    """The part of a signature for a pointer or a number; None for a value."""
    name, _, divisor = item.removeprefix("*").partition(":")
    dtype = _DTYPES.get(name, name if name in _DTYPES.values() else "")
    if not dtype:
        return None
    if item.startswith("*"):
        is_brain = dtype == "bfloat16"
        return ArrayType(np.dtype("uint16" if is_brain else dtype).char, False, True, dtype if is_brain else None)
    if dtype in ("bool", "float32"):
        return bool if dtype == "bool" else float
    return IntType(dtype, DIVISOR if divisor == str(DIVISOR) else 1) if "int" in dtype else dtype


def _value(name: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(
            f"the signature of {name} has {text!r}, which is no type ({', '.join(_DTYPES)}; *fp32 for a pointer), and "
            "no value of a constant"
        ) from None
