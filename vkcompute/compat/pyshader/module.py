"""Shader modules: SPIR-V compiled from Python functions by `python2shader`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.compat.pyshader import types
from vkcompute.compat.pyshader.language import Buffer, ShaderLanguage
from vkcompute.compat.pyshader.types import Scalar, ShaderType, parse_type
from vkcompute.errors import KernelError
from vkcompute.frontend.source import read
from vkcompute.jit.compilation.build import optimized
from vkcompute.jit.frontend.values import Kind, Number, Vector

RES_INPUT, RES_OUTPUT, RES_UNIFORM, RES_BUFFER = "input", "output", "uniform", "buffer"
RES_SAMPLER, RES_TEXTURE = "sampler", "texture"
_UNSUPPORTED = {
    RES_OUTPUT: "an output; write to a buffer",
    RES_UNIFORM: 'a uniform; write ("buffer", slot, Array(f32)), and bind a device array',
    **dict.fromkeys((RES_SAMPLER, RES_TEXTURE), 'textures; write ("buffer", slot, Array(vec4)), and index it'),
}
_BUILTINS = {
    "GlobalInvocationId": "global_id",
    "LocalInvocationId": "local_id",
    "WorkgroupId": "group_id",
    "NumWorkgroups": "n_groups",
    "LocalInvocationIndex": "local_index",
}


class ShaderModule:
    """A compiled shader, made by `python2shader`.

    Attributes:
        input: the Python function.
        description: text for messages.
    """

    def __init__(self, function: FunctionType, spirv: bytes) -> None:
        self.input, self.description, self._spirv = function, f"shader from {function.__name__}", spirv

    def to_spirv(self) -> bytes:
        """Returns the SPIR-V module: entry point "main", workgroups of one invocation."""
        return self._spirv

    def __repr__(self) -> str:
        return f"<ShaderModule {self.description}>"


def python2shader(func: Callable[..., object]) -> ShaderModule:
    """Compiles a compute shader; a decorator.

        @python2shader
        def compute_product(
            index=("input", "GlobalInvocationId", ivec3),
            a=("buffer", 0, Array(f32)),
            b=("buffer", 1, Array(f32)),
        ):
            b[index.x] *= a[index.x]

        gpu.kernel(compute_product.to_spirv())(x, y)

    **Parameters** are declared by default or annotation: an input, or a buffer at a binding or (set, binding). Buffers
    hold numbers, or vectors without padding (a vec3 takes 12 bytes).

    **Types** are never promoted: both operands of an operator have one type, and so have the values of a variable
    after a branch. Convert by `f32(x)`. A Python int is an i32, a float an f32. `/` divides floats, `//` integers
    towards zero; `%` has the divisor's sign. Operators on vectors are elementwise, also with a number; `@` is the dot
    product; `v.x`, `v.zyx`, `v.rgb` and `v[0]` are elements. List literals such as `[0.5, 0.25]` and
    `[[0, 4], [1, 5]]` take any index.

    **Names** of types and of PyShader's functions, `math` and `stdlib` need no import. Statements, branches, loops,
    calls of other functions and constants are those of `vc.kernel`.

    Raises:
        KernelError (`ShaderError`): not supported in shaders; with file, line, column and a caret.
        TypeError: `func` is not a Python function, or a parameter is not declared.
        NameError: the name does not contain "compute".
    """
    if not isinstance(func, FunctionType):
        raise TypeError(f"python2shader takes a function written in Python; got {type(func).__name__}")
    stages = [stage for stage in ("compute", "vertex", "fragment") if stage in func.__name__.lower()]
    if len(stages) != 1:
        raise NameError(f'the name of a shader contains "compute" (or "vertex" or "fragment"); got {func.__name__}')
    source = read(func)
    if stages != ["compute"]:
        raise source.error(source.tree, f"only compute shaders are compiled; got a {stages[0]} shader")
    function = ir.Function(func.__name__, (1, 1, 1))
    language = ShaderLanguage(function)
    try:
        args = {name: _parameter(language, name, *resource) for name, resource in _resources(func).items()}
    except _UnsupportedParameter as error:
        raise source.error(source.tree, error) from None
    try:
        language.evaluator.run(func, source, args)
    except RecursionError:
        raise source.too_deep() from None
    return ShaderModule(func, ir.lower(optimized(function)).spirv)


class _UnsupportedParameter(Exception):
    """A parameter that PyShader supports and this language does not."""


def _resources(func: FunctionType) -> dict[str, tuple[str, Any, ShaderType]]:
    """Maps parameters to resource, slot and type. Each slot has one parameter."""
    annotations, resources, taken = inspect.get_annotations(func, eval_str=True), {}, dict[Any, str]()
    for name, parameter in inspect.signature(func).parameters.items():
        given = next(
            (
                declaration
                for declaration in (annotations.get(name), parameter.default)
                if isinstance(declaration, tuple)
            ),
            None,
        )
        if given is None or len(given) != 3:
            raise TypeError(f'parameter {name} is declared as {name}=("buffer", 0, Array(f32)); got {parameter}')
        resource, slot, kind = given
        resource = resource.lower() if isinstance(resource, str) else resource
        kind = parse_type(kind) if isinstance(kind, str) and resource not in _UNSUPPORTED else kind
        rule = f"parameter {name} is declared as (resource, slot, type)"
        if resource not in (RES_INPUT, RES_BUFFER, *_UNSUPPORTED):
            raise TypeError(f"{rule}; the resource is {RES_INPUT!r} or {RES_BUFFER!r}; got {given[0]!r}")
        if not (isinstance(kind, ShaderType) or resource in _UNSUPPORTED):
            raise TypeError(f"{rule}; the type is one of PyShader's, as f32 or Array(f32); got {kind!r}")
        if resource == RES_BUFFER:
            slot = slot if isinstance(slot, tuple) else (0, slot)
            if len(slot) != 2 or not all(type(number) is int and number >= 0 for number in slot):
                raise TypeError(f"the slot of {name} is a binding, or (set, binding); got {given[1]!r}")
            if slot in taken:
                raise KernelError(f"{taken[slot]} and {name} are both bound at {given[1]}; change one of the slots")
            taken[slot] = name
        resources[name] = resource, slot, kind
    return resources


def _parameter(language: ShaderLanguage, name: str, resource: str, slot: Any, kind: Any) -> Any:
    if resource in _UNSUPPORTED:
        raise _UnsupportedParameter(f"not supported in shaders: {_UNSUPPORTED[resource]} ({name})")
    return (_input if resource == RES_INPUT else _buffer)(language, name, slot, kind)


def _input(language: ShaderLanguage, name: str, slot: Any, kind: Any) -> Any:
    builtin = _BUILTINS.get(slot) if isinstance(slot, str) else None
    scalar, n = (kind.subtype, kind.length) if isinstance(kind, types.Vector) else (kind, 1)
    n_axes = 1 if builtin == "local_index" else 3
    if builtin is None:
        raise _UnsupportedParameter(f"the inputs of a compute shader are {', '.join(_BUILTINS)}; got {slot!r} ({name})")
    if not isinstance(scalar, Scalar) or str(scalar) not in ("i32", "u32") or n > n_axes:
        raise _UnsupportedParameter(f"{slot} is an {'i32' if n_axes == 1 else 'ivec3'}; got {kind} ({name})")
    b, number = language.builder, scalar.number
    axes = [Number(b.cast(b.builtin(builtin, axis), number), Kind(number)) for axis in range(n_axes)]
    return Vector(axes[:n]) if isinstance(kind, types.Vector) else axes[0]


def _buffer(language: ShaderLanguage, name: str, slot: tuple[int, int], kind: Any) -> Buffer:
    element = kind.subtype if isinstance(kind, types.Array) else None
    scalar, n = (element.subtype, element.length) if isinstance(element, types.Vector) else (element, 1)
    if not isinstance(scalar, Scalar) or scalar.number is ir.BOOL:
        raise _UnsupportedParameter(f"a buffer is an Array of numbers or of vectors of them; got {kind} ({name})")
    memory = language.function.buffer(name, scalar.number, slot)
    unknown = f"the length of {name} is not known in a shader; count from the start, or pass it"
    return Buffer(name, len(language.function.buffers) - 1, scalar.number, 1, memory, lengths=unknown, n=n)
