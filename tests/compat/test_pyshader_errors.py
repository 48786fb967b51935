"""Errors of the shader compiler: each names both types, the position and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vkcompute.compat.pyshader as ps
from vkcompute.compat.pyshader import Array, ShaderError, Struct, Vector, f32, i32, ivec3, python2shader, vec3
from vkcompute.compat.pyshader.types import parse_type

pytestmark = pytest.mark.pure

INDEX = ("input", "GlobalInvocationId", ivec3)
FLOATS = ("buffer", 0, Array(f32))
INTS = ("buffer", 1, Array(i32))
TRIPLES = ("buffer", 2, Array(vec3))


def promoted_compute(index=INDEX, x=FLOATS):
    x[0] = x[1] + index.x  # takes numbers of one type; got f32 and i32; convert, as f32(x)


def constant_compute(index=INDEX, x=FLOATS):
    x[0] = x[1] * 2  # got f32 and i32


def augmented_compute(index=INDEX, x=FLOATS):
    y = 1
    y += x[0]  # got i32 and f32


def divided_compute(index=INDEX, n=INTS):
    n[0] = n[1] / n[2]  # / does not divide i32; write x // y


def floored_compute(index=INDEX, x=FLOATS):
    x[0] = x[1] // x[2]  # // does not divide f32; write x / y


def typed_constant_compute(index=INDEX, x=FLOATS):
    half = 1
    x[0] = half / 2  # / does not divide i32


def compared_compute(index=INDEX, x=FLOATS):
    if x[0] < 1:  # < takes numbers of one type; got f32 and i32
        x[0] = 1.0


def stored_compute(index=INDEX, x=FLOATS):
    x[0] = index.x  # x holds f32; got i32; write f32(…)


def stored_vector_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[0]  # x holds f32; got vec3


def stored_scalar_compute(index=INDEX, v=TRIPLES):
    v[0] = 1.0  # v holds vec3; got f32; write vec3(…)


def stored_ints_compute(index=INDEX, v=TRIPLES):
    v[index.x] = index  # v holds vec3; got ivec3


def lengths_compute(index=INDEX, v=TRIPLES):
    v[0] = v[0] + vec2(1.0, 2.0)  # vectors in one expression have one length; got vec3 and vec2


def dot_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[0] @ 2.0  # @ takes two vectors; got vec3 and f32


def dot_types_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[0] @ index  # @ takes numbers of one type


def condition_compute(index=INDEX, x=FLOATS):
    if index.x:  # a condition is boolean; got i32; compare, as x != 0
        x[0] = 1.0


def vector_condition_compute(index=INDEX, v=TRIPLES):
    while v[0] < v[1]:  # write any(v) or all(v)
        v[0] = v[1]


def and_compute(index=INDEX, x=FLOATS):
    x[0] = x[1] and 99.0  # a condition is boolean; got f32


def not_compute(index=INDEX, x=FLOATS):
    x[0] = f32(not x[1])  # a condition is boolean; got f32


def ways_compute(index=INDEX, x=FLOATS):
    value = 0.0
    if index.x > 2:
        value = 1
    x[0] = value  # i32 on one path and f32 on another


def conditional_compute(index=INDEX, x=FLOATS):
    x[0] = 1.0 if index.x > 2 else 2  # f32 on one path and i32 on another


def loop_compute(index=INDEX, x=FLOATS):
    value = vec2(1.0, 2.0)
    for i in range(index.x):
        value = vec3(value, 1.0)  # value has no value that can be used here
    x[0] = value.x


def swizzle_compute(index=INDEX, v=TRIPLES):
    v[0] = v[1].xyw  # vec3 has no elements xyw


def long_swizzle_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[1].xyzxy.x  # vec3 has no elements xyzxy


def third_axis_compute(index=("input", "GlobalInvocationId", Vector(2, i32)), n=INTS):
    n[0] = index.z  # ivec2 has no elements z


def attribute_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[1].norm  # vec3 has no elements norm


def element_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[1][3]  # is indexed by a constant in range; got 3


def float_element_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = v[1][1.0]  # is indexed by a constant in range; got


def set_element_compute(index=INDEX, v=TRIPLES):
    v[0].x = 1.0  # vectors are immutable


def float_index_compute(index=INDEX, x=FLOATS):
    x[x[0]] = 1.0  # an index is an integer; got f32; write i32(x)


def vector_index_compute(index=INDEX, x=FLOATS):
    x[index] = 1.0  # x takes 1 indices, one per axis; got 3


def count_compute(index=INDEX, v=TRIPLES):
    v[0] = vec3(1.0, 2.0)  # vec3 takes 3 numbers; got 2


def scalar_compute(index=INDEX, x=FLOATS, v=TRIPLES):
    x[0] = f32(v[0])  # f32 takes 1 number; got 3


def matrix_compute(index=INDEX, v=TRIPLES):
    v[0] = mat3(1.0) * v[0]  # not supported in shaders: matrices


def void_compute(index=INDEX, x=FLOATS):
    x[0] = void(1.0)  # not supported in shaders


def unknown_compute(index=INDEX, x=FLOATS):
    x[0] = nowhere  # the name nowhere is not defined


def parameter_compute(index=INDEX, x=FLOATS):
    x = index.x  # x is a parameter; assign to its elements
    x[0] = 1.0


def size_compute(index=INDEX, n=INTS):
    n[0] = n.size  # the length of n is not known in a shader


def last_compute(index=INDEX, x=FLOATS):
    x[0] = x[-1]  # the length of x is not known in a shader


def integer_function_compute(index=INDEX, x=FLOATS):
    x[0] = exp(2)  # exp takes floats; got i32; write f32(x)


def mixed_function_compute(index=INDEX, x=FLOATS):
    x[0] = max(x[0], 1)  # max takes numbers of one type; got f32 and i32


def n_arguments_compute(index=INDEX, x=FLOATS):
    x[0] = sqrt(x[0], x[1])  # sqrt takes 1 number; got 2


def inside_compute(index=INDEX, x=FLOATS):
    x[0] = mix(1.0, 2.0, 1)  # in this call of mix


def large_compute(index=INDEX, n=INTS):
    n[0] = 3000000000  # 3000000000 does not fit i32; write i64(3000000000)


def returned_compute(index=INDEX, x=FLOATS):
    return x[0]  # a kernel returns nothing


def list_compute(index=INDEX, x=FLOATS):
    a = [1.0, 2]  # a list holds values of one type; got f32 and i32
    x[0] = a[0]


def list_of_lists_compute(index=INDEX, x=FLOATS):
    a = [[0, 4], [1, 5, 6]]  # a list holds values of one type; got Array(2,i32) and Array(3,i32)
    x[0] = f32(a[index.x][1])


def mixed_lists_compute(index=INDEX, x=FLOATS):
    a = [[0, 4], [1.0, 5.0]]  # got Array(2,i32) and Array(2,f32)
    x[0] = f32(a[index.x][1])


def row_compute(index=INDEX, x=FLOATS):
    a = [[0.5, 4.0], [1.0, 5.0]]
    x[0] = a[index.x]  # this takes one number; got Array(2,f32); name an element, as a[0]


def joined_list_compute(index=INDEX, x=FLOATS):
    a = [0.5, 4.0]
    if index.x > 2:
        a = [1, 2]
    x[0] = a[0]  # i32 on one path and f32 on another


def empty_list_compute(index=INDEX, x=FLOATS):
    a = []  # a list holds values of one type; got none
    x[0] = a[0]


def list_index_compute(index=INDEX, x=FLOATS):
    a = [1.0, 2.0]
    x[0] = a[x[1]]  # an index is an integer; got f32


def list_range_compute(index=INDEX, x=FLOATS):
    a = [1.0, 2.0]
    x[0] = a[2]  # is indexed by a constant in range; got 2


def set_list_compute(index=INDEX, x=FLOATS):
    a = [1.0, 2.0]
    a[0] = 1.0  # the elements of a tuple cannot be assigned


def texture_compute(index=INDEX, v=TRIPLES):
    v[0] = read(v, index)  # the name read is not defined


REFUSED = [item for name, item in sorted(globals().items()) if name.endswith("_compute")]


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_refused(function: Any) -> None:
    """The line at the caret has a comment with part of the message."""
    with pytest.raises(ShaderError) as caught:
        python2shader(function)
    *_, (file, line, message, source) = re.findall(r"(.*):(\d+):\d+: (.*)\n    (.*)\n", str(caught.value))
    assert Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1].strip() == source.strip()
    assert "# " in source, f"the error is at another line: {caught.value}"
    assert source.partition("# ")[2] in message


def test_mixed_lengths_of_a_joined_vector() -> None:
    def lengths_compute(index=INDEX, v=TRIPLES):
        w = v[0] if index.x > 3 else v[0].xy
        v[1] = w

    with pytest.raises(ShaderError, match="vec3 on one path and vec2 on another"):
        python2shader(lengths_compute)


# -- parameters -------------------------------------------------------------------------------------------------------


def shader(*resources: Any) -> Callable[[], object]:
    """Makes a shader with these parameters."""
    defaults = resources

    def compute(a=None, b=None):
        pass

    compute.__defaults__ = (*defaults, INDEX)[:2]
    return compute


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (("uniform", 0, Array(f32)), 'a uniform; write .*"buffer", slot'),
        (("uniform", (0, 1), Struct(a=f32)), "a uniform"),
        (("Texture", 0, "2d rgba8"), "textures; write"),
        (("sampler", 0, ""), "textures"),
        (("output", 0, vec3), "an output; write to a buffer"),
        (("input", "VertexId", i32), "the inputs of a compute shader are GlobalInvocationId, .*got 'VertexId'"),
        (("input", 0, i32), "the inputs of a compute shader are .*got 0"),
        (("input", "GlobalInvocationId", vec3), "GlobalInvocationId is an ivec3; got vec3"),
        (("input", "GlobalInvocationId", Vector(4, i32)), "GlobalInvocationId is an ivec3; got ivec4"),
        (("input", "LocalInvocationIndex", ivec3), "LocalInvocationIndex is an i32; got ivec3"),
        (("buffer", 0, f32), "a buffer is an Array of numbers or of vectors of them; got f32"),
        (("buffer", 0, Array(ps.boolean)), r"got Array\(boolean\)"),
        (("buffer", 0, Array(ps.mat4)), "a buffer is an Array"),
        (("buffer", 0, Array(Array(3, f32))), r"got Array\(Array\(3,f32\)\)"),
        (("buffer", 0, Struct(a=f32)), "a buffer is an Array"),
    ],
)
def test_refused_parameters(resource: Any, message: str) -> None:
    with pytest.raises(ShaderError, match=message) as caught:
        python2shader(shader(resource))
    assert "def compute(a=None" in str(caught.value)


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (None, "parameter a is declared as"),
        (f32, "parameter a is declared as"),
        (("buffer", 0), "parameter a is declared as"),
        (["buffer", 0, Array(f32)], "parameter a is declared as"),
        (("inptu", "GlobalInvocationId", ivec3), "parameter a is declared as .*is 'input' or 'buffer'; got 'inptu'"),
        ((3, 0, Array(f32)), "parameter a is declared as"),
        (("buffer", 0, float), "parameter a is declared as .*the type is one of PyShader's, .* got <class 'float'>"),
        (("buffer", 0, "Array(float)"), "is not a type"),
        (("buffer", 0, "Array(f32"), "is not a type"),
        (("buffer", "0", Array(f32)), "the slot of a is"),
        (("buffer", -1, Array(f32)), "the slot of a is"),
        (("buffer", (1, 2, 3), Array(f32)), "the slot of a is"),
        (("buffer", 1.0, Array(f32)), "the slot of a is"),
    ],
)
def test_parameters_without_sense(resource: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        python2shader(shader(resource))


def test_a_slot_is_taken_once() -> None:
    with pytest.raises(ShaderError, match="a and b are both bound at 0"):
        python2shader(shader(("buffer", (0, 0), Array(f32)), ("buffer", 0, Array(i32))))


def test_what_is_no_shader() -> None:
    def vertex_shader(index=INDEX):
        pass

    def anything(index=INDEX):
        pass

    def compute_fragment(index=INDEX):
        pass

    with pytest.raises(TypeError, match="takes a function written in Python; got int"):
        python2shader(3)  # type: ignore[arg-type]
    with pytest.raises(ShaderError, match="only compute shaders are compiled; got a vertex shader"):
        python2shader(vertex_shader)
    for function in (anything, compute_fragment):
        with pytest.raises(NameError, match='contains "compute"'):
            python2shader(function)


# -- types ------------------------------------------------------------------------------------------------------------


def test_types_are_values() -> None:
    assert Vector(3, f32) == vec3 == parse_type(" vector( 3, F32 )")
    assert Array(vec3) == parse_type("Array(vec3)") != Array(4, vec3)
    assert parse_type("Array(4, Vec3)") == Array(4, vec3)
    assert [str(item) for item in (f32, ivec3, Vector(2, ps.f64), Array(4, vec3), Array(f32))] == [
        "f32", "ivec3", "Vector(2,f64)", "Array(4,vec3)", "Array(f32)",
    ]  # fmt: skip
    assert ps.mat4 == ps.Matrix(4, 4, f32) == ps.mat4x4
    assert (ps.ivec3.length, ps.ivec3.subtype) == (3, i32)
    assert set(ps.__all__) <= {*dir(ps), *ps.types.TYPES}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Vector(5, f32),
        lambda: Vector(1, f32),
        lambda: Vector(2, vec3),
        lambda: ps.Matrix(5, 2, f32),
        lambda: ps.Matrix(2, 2, i32),
        lambda: Array(),
        lambda: Array(0, f32),
        lambda: Array(3),
        lambda: Array(ps.void),
        lambda: Array(1, 2, f32),
        lambda: Struct(a=3),  # type: ignore[arg-type]
        lambda: parse_type("f32; f32"),
        lambda: parse_type("__import__('os')"),
        lambda: parse_type("3"),
    ],
)
def test_types_without_sense(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        make()


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute vec5"):
        ps.vec5  # noqa: B018
