"""Launches: ordered by their data, on arrays and views, from several threads; refused where they cannot be right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from machine import ADD, SCALE
from runtimes import open_runtime

import vkcompute as vc
from shaders import MULTIPLY

# Four components at a time: the array may end in the middle of an element.
VECTORS = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { vec4 a[]; };
void main() { if (gl_GlobalInvocationID.x < a.length()) a[gl_GlobalInvocationID.x] += 1; }
"""
UNIFORM = """
layout(local_size_x = 64) in;
layout(binding = 0) uniform U { vec4 factor; ivec4 shift; };
layout(binding = 1) buffer A { float a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] = a[i] * factor.y + shift.z; }
"""
TEXELS = """
layout(local_size_x = 64) in;
layout(binding = 0) uniform samplerBuffer a;
layout(binding = 1) writeonly buffer B { float b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = texelFetch(a, int(i) / 4)[i % 4] * 2; }
"""
WHERE = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { uint a[]; };
void main() {
    atomicAdd(a[0], 1);
    for (int i = 0; i < 3; i++) atomicMax(a[i + 1], gl_WorkGroupID[i]);
}
"""


@pytest.mark.parametrize("n", [3, 1000])
@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("timelines", [1, 3])
def test_chained_launches_without_barriers(n: int, staging: bool, timelines: int) -> None:
    """Kompute's three dispatches of `+= 1` give 1."""
    with open_runtime(staging=staging, timelines=timelines) as gpu:
        kernel, x = gpu.kernel(vc.glsl(SCALE)), gpu.zeros(1000, np.int32)
        for _ in range(n):
            kernel(x, 1, 1)
        assert np.array_equal(x.numpy(), np.full(1000, n))
        with gpu.record() as graph:
            for _ in range(n):
                kernel(x, 1, 1)
        graph.run(2)
        assert np.array_equal(x.numpy(), np.full(1000, 3 * n))


def test_fibonacci_over_two_arrays(gpu: vc.Runtime) -> None:
    add, a, b = gpu.kernel(vc.glsl(ADD)), gpu.full(100, 1, np.int32), gpu.full(100, 1, np.int32)
    for _ in range(20):
        c = gpu.empty(100, np.int32)
        add(a, b, c, 1)
        a, b = b, c
    assert set(b.numpy().tolist()) == {17711}


def test_views_at_every_place_that_can_be_bound(gpu: vc.Runtime) -> None:
    kernel, align = gpu.kernel(vc.glsl(SCALE)), gpu.device.physical.limits["minStorageBufferOffsetAlignment"] // 4
    for start in {0, align, 5 * align}:
        for length in (1, 7, 64, 65):
            array, expected = gpu.zeros(6 * align + 100, np.int32), np.zeros(6 * align + 100, np.int32)
            kernel(array[start : start + length], 1, 5)
            expected[start : start + length] = 5
            assert np.array_equal(array.numpy(), expected)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 6, 7, 8, 1000, 1001])
def test_vectors_at_the_end_stay_in_the_arrays_own_padding(gpu: vc.Runtime, n: int) -> None:
    kernel = gpu.kernel(vc.glsl(VECTORS))
    whole = gpu.zeros(n)
    kernel(whole)
    assert whole.numpy().tolist() == [1] * n
    for end in range(max(0, n - 5), n):
        array = gpu.zeros(n)
        if end % 4:
            with pytest.raises(ValueError, match="no multiple"):
                kernel(array[:end])
        elif end:
            kernel(array[:end])
        assert array.numpy().tolist() == [1 if end % 4 == 0 and i < end else 0 for i in range(n)]


def test_what_is_known_of_an_array_is_not_taken_for_a_view_of_another() -> None:
    """The same bytes, first a whole array with padding behind it, then part of a longer one."""
    with vc.Runtime() as gpu:
        kernel = gpu.kernel(vc.glsl(VECTORS))
        short = gpu.zeros(5)
        place = short.buffer.block, short.buffer.offset
        kernel(short)
        gpu.wait()
        del short
        gpu.device.collect(wait=True)
        long = gpu.zeros(8)
        assert (long.buffer.block, long.buffer.offset) == place, "the memory is used again"
        with pytest.raises(ValueError, match="no multiple"):
            kernel(long[:5])
        assert long.numpy().tolist() == [0] * 8


def test_uniform_buffers(gpu: vc.Runtime) -> None:
    kernel, a = gpu.kernel(vc.glsl(UNIFORM)), gpu.full(100, 2.0)
    block = np.zeros(8, np.float32)
    block[1] = 3
    block.view(np.int32)[6] = -1
    kernel(gpu.array(block), a)
    assert set(a.numpy().tolist()) == {5.0}
    with pytest.raises(ValueError, match="32 bytes"):
        kernel(gpu.zeros(7), a)
    with pytest.raises(ValueError, match="at most"):
        kernel(gpu.empty(gpu.device.physical.limits["maxUniformBufferRange"] // 4 + 1), a)


@pytest.mark.parametrize("n", [1, 4, 5, 64, 1000, 1001])
def test_texel_buffers(gpu: vc.Runtime, n: int) -> None:
    kernel, values = gpu.kernel(vc.glsl(TEXELS)), np.arange(n, dtype=np.float32)
    a, out = gpu.array(values), gpu.empty(n)
    kernel(a, out)
    assert np.array_equal(out.numpy(), values * 2)
    for _ in range(3):  # what is read through a texel buffer waits for what writes it, and the other way round
        kernel(a, out)
        kernel(out, a)
    assert np.array_equal(a.numpy(), values * 64)
    if n % 4:
        with pytest.raises(ValueError, match="16 bytes"):
            kernel(gpu.zeros(n + 4)[:n], out)
    for dtype in (np.int32, np.float64, np.uint8):
        with pytest.raises(TypeError, match=f"float32; the array is {np.dtype(dtype)}"):
            kernel(gpu.zeros(n, dtype), out)


def test_a_texel_buffer_of_more_texels_than_the_device_reads(gpu: vc.Runtime) -> None:
    most = gpu.device.physical.limits["maxTexelBufferElements"]
    if most > 1 << 24:
        pytest.skip(f"the device reads {most} texels, and the test would take as many")
    with pytest.raises(ValueError, match=f"at most {most * 16}"):
        gpu.kernel(vc.glsl(TEXELS))(gpu.empty(4 * most + 4), gpu.empty(4))


def test_views_of_texel_buffers_are_given_back() -> None:
    """Many arrays in turn on one kernel: more than it keeps descriptor sets for."""
    with vc.Runtime() as gpu:
        kernel, out = gpu.kernel(vc.glsl(TEXELS)), gpu.empty(4)
        whole = gpu.array(np.arange(1200 * 64, dtype=np.float32))
        for i in range(1200):
            kernel(whole[64 * i : 64 * i + 4], out)
            if i % 100 == 0:
                assert out.numpy().tolist() == [2 * (64 * i + k) for k in range(4)]
        assert out.numpy()[0] == 2 * 64 * 1199


@pytest.mark.parametrize(
    ("grid", "groups"),
    [(3, (3, 1, 1)), ((2, 3), (2, 3, 1)), ((2, 3, 4), (2, 3, 4)), (np.int64(5), (5, 1, 1)), ([1, 2], (1, 2, 1))],
)
def test_grids(gpu: vc.Runtime, grid: object, groups: tuple[int, int, int]) -> None:
    x = gpu.zeros(4, np.uint32)
    gpu.kernel(vc.glsl(WHERE))(x, grid=grid)
    assert x.numpy().tolist() == [64 * np.prod(groups), *(n - 1 for n in groups)]


def test_an_empty_grid_does_nothing(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4, np.uint32)
    for grid in (0, (0, 5), (3, 0, 1)):
        gpu.kernel(vc.glsl(WHERE))(x, grid=grid)
    assert not x.numpy().any()


@pytest.mark.parametrize("grid", ["64", 2.0, (1, 2.0), (1, 1, 1, 1), (), None])
def test_what_is_no_grid(gpu: vc.Runtime, grid: object) -> None:
    kernel = gpu.kernel(vc.glsl(WHERE.replace("local_size_x", "local_size_y")))
    with pytest.raises(ValueError if grid is None else TypeError, match="grid"):
        kernel(gpu.zeros(4, np.uint32), grid=grid)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("gl_GlobalInvocationID.x + 4 * gl_GlobalInvocationID.y", "ids along y"),
        ("gl_GlobalInvocationID.x + 64 * gl_WorkGroupID.z", "ids along z"),
        ("id.x + 4 * id.y + 8 * id.z", "ids along y and z"),
        ("uint(p.x + 4 * p.y)", "ids along y"),
        ("at(gl_GlobalInvocationID.xy)", "ids along y"),
        ("id.x", ""),
        ("gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64", ""),
        ("gl_WorkGroupID.x * 64 + gl_LocalInvocationID.x + gl_LocalInvocationID.y", ""),
    ],
)
def test_glsl_that_reads_ids_along_more_axes_than_the_default_grid(gpu: vc.Runtime, index: str, said: str) -> None:
    text = """
        layout(local_size_x = 64) in;
        layout(binding = 0) buffer A { uint a[]; };
        uint at(uvec2 here) { return here.x + 4 * here.y; }
        void main() {
            uvec3 id = gl_GlobalInvocationID;
            ivec2 p = ivec2(gl_GlobalInvocationID.xy);
            uint i = INDEX;
            if (i < a.length() && id.x < 4) a[i] = 1;
        }
    """.replace("ivec2 p = ivec2(gl_GlobalInvocationID.xy);" if "p." not in index else "\0", "")
    kernel, x = gpu.kernel(vc.glsl(text.replace("INDEX", index))), gpu.zeros(4, np.uint32)
    if said:
        with pytest.raises(ValueError, match=f"needs grid=.*reads {said}, and the default grid has workgroups along x"):
            kernel(x)
        kernel(x, grid=(1, 1, 1))
    else:
        kernel(x)
    assert x.numpy().tolist() == [1] * 4


@pytest.mark.parametrize("axis", range(3))
def test_grids_beyond_the_limit(gpu: vc.Runtime, axis: int) -> None:
    limits = gpu.device.physical.limits["maxComputeWorkGroupCount"]
    for wrong in (limits[axis] + 1, -1):
        grid = [1, 1, 1]
        grid[axis] = wrong
        with pytest.raises(ValueError, match=str(limits[axis])):
            gpu.kernel(vc.glsl(WHERE))(gpu.zeros(4, np.uint32), grid=grid)


def test_arrays_without_elements(gpu: vc.Runtime) -> None:
    add, scale = gpu.kernel(vc.glsl(ADD)), gpu.kernel(vc.glsl(SCALE))
    x = gpu.full(10, 1, np.int32)
    for empty in (gpu.empty(0, np.int32), gpu.empty((3, 0), np.int32), x[10:], x[3:3], x[:0]):
        scale(empty, 2, 3)
        add(x, x, empty, 1)
    assert set(x.numpy().tolist()) == {1}


# What is passed for the second of ADD's arrays.
WRONG: dict[str, tuple[Callable[[vc.Runtime], object], type[Exception], str]] = {
    "array": (lambda gpu: np.zeros(100, np.int32), TypeError, "takes a device array; got ndarray"),
    "number": (lambda gpu: 1, TypeError, "takes a device array; got int"),
    "dtype": (lambda gpu: gpu.zeros(100), TypeError, r"int32; the array is float32; .*\.view"),
    "width": (
        lambda gpu: gpu.zeros(100, np.int8),
        TypeError,
        r"the array is int8; convert the data first, with \.astype\('int32'\)",
    ),
    "strides": (lambda gpu: gpu.zeros((20, 5), np.int32)[:, 0], ValueError, r"contiguous .*\.copy\(\)"),
    "offset": (lambda gpu: gpu.zeros(9, np.int8)[1:].view(np.int32), ValueError, r"byte 1 .*\.copy\(\)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arrays(gpu: vc.Runtime, what: str) -> None:
    make, kind, match = WRONG[what]
    good = gpu.zeros(100, np.int32)
    with pytest.raises(kind, match=match):
        gpu.kernel(vc.glsl(ADD))(good, make(gpu), good, 1)


@pytest.mark.parametrize("n", range(3))
def test_too_few_arrays(gpu: vc.Runtime, n: int) -> None:
    with pytest.raises(TypeError, match=rf"takes 3 arrays \(a, b, c\); got {n}"):
        gpu.kernel(vc.glsl(ADD))(*[gpu.zeros(100, np.int32)] * n)


def test_types_are_not_checked_where_that_is_asked_for(gpu: vc.Runtime) -> None:
    x = gpu.full(4, 1.0)
    gpu.kernel(vc.glsl(SCALE), check_types=False)(x, 1, 1 << 23)  # the exponent's lowest bit
    assert x.numpy().tolist() == [2.0] * 4


def test_an_array_of_another_runtime_or_a_closed_one(gpu: vc.Runtime) -> None:
    kernel = gpu.kernel(vc.glsl(SCALE))
    with vc.Runtime() as other:
        x = other.zeros(4, np.int32)
        with pytest.raises(ValueError, match="another runtime"):
            kernel(x, 1, 1)
    closed = gpu.zeros(4, np.int32)
    kernel(closed, 1, 1)
    closed.close()
    with pytest.raises(vc.ClosedError):
        kernel(closed, 1, 1)


def test_more_bytes_than_a_binding_sees(gpu: vc.Runtime) -> None:
    most = gpu.device.max_binding_bytes
    if most > 1 << 28:
        pytest.skip(f"a binding sees {most} bytes, and the test would take as many")
    kernel, x = gpu.kernel(vc.glsl(SCALE)), gpu.empty(most // 4 + 1, np.int32)
    with pytest.raises(ValueError, match=f"{most + 4} bytes, .* binds at most {most}; bind parts"):
        kernel(x, 1, 1)
    x[-65:].fill(3)
    kernel(x[1 << 20 : 1 << 21], 1, 1, grid=1)
    assert x[-1:].numpy().tolist() == [3]


def test_more_elements_than_one_dimension_of_groups(gpu: vc.Runtime) -> None:
    source = SCALE.replace("local_size_x = 32", "local_size_x = 1")
    limit = gpu.device.physical.limits["maxComputeWorkGroupCount"][0]
    if limit > 1 << 20:
        pytest.skip(f"the device launches {limit} groups, and the test would take as many elements")
    kernel, x = gpu.kernel(vc.glsl(source)), gpu.empty(limit + 1, np.int32)
    with pytest.raises(ValueError, match=f"more than {limit} groups along x"):
        kernel(x, 1, 1)


def test_eight_threads_at_once(gpu: vc.Runtime) -> None:
    """Each on an array of its own, and all on one that they share."""
    add, scale, shared = gpu.kernel(vc.glsl(ADD)), gpu.kernel(vc.glsl(SCALE)), gpu.zeros(1000, np.int32)
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            own = gpu.full(500 + number, number, np.int32)
            start.wait()
            for i in range(100):
                scale(own, 1, 1)
                scale(shared, 1, 1)
                if i % 10 == number:
                    assert own[:1].numpy().tolist() == [number + i + 1]
                    add(own, own.copy(), gpu.empty(10, np.int32), 1)
            assert np.array_equal(own.numpy(), np.full(500 + number, number + 100))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert np.array_equal(shared.numpy(), np.full(1000, 800))


def test_kernels_in_glsl_take_their_grid_in_brackets_too(gpu: vc.Runtime) -> None:
    kernel, a = gpu.kernel(MULTIPLY), gpu.full(600, 2.0)
    x, y, _ = kernel.local_size
    by_keywords = partial(kernel, grid=1, local_size=x, queue=0)
    for launch in (kernel[1], kernel[1, None], kernel[(1, 1), kernel.local_size, 0], kernel[1, x], by_keywords):
        out = gpu.zeros(600)
        launch(a, a, out)
        assert out.numpy().tolist() == [4.0] * x + [0.0] * (600 - x)
    kernel[None, None, None](a, a, out)
    assert set(out.numpy().tolist()) == {4.0}
    with pytest.raises(ValueError, match=rf"has workgroups of \({x}, {y}, 1\), as its shader says; got \(7, 1, 1\)"):
        kernel[1, 7](a, a, out)
    with pytest.raises(ValueError, match=r"or write grid=\(10, 13\) if brackets have these workgroups"):
        kernel[(10, 13)](a, a, out)
    with pytest.raises(ValueError, match=r"or write grid=\(10, 13, 3\)"):
        kernel[(10, 13, 3)](a, a, out)
    with pytest.raises(ValueError, match="leave the local size out"):
        kernel(a, a, out, local_size=7)
    with pytest.raises(TypeError, match="grid=2 is given in brackets, too; give it once"):
        kernel[1](a, a, out, grid=2)
    with pytest.raises(TypeError, match=r"takes \[groups, local_size, queue\] in brackets; got \(1, 2, 3, 4\)"):
        kernel[1, 2, 3, 4]
    with pytest.raises(ValueError, match="not negative"):
        kernel[-1]


TWICE = """
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer C { float c[]; };
layout(push_constant) uniform P { int n; };
void main() {
    float total = 0.0;
    for (int k = 0; k < n; k++) {
        total += a[0];
        c[0] = total;
    }
    c[1] = a[0];
}
"""


@pytest.mark.parametrize("optimize", [False, True])
def test_a_readonly_buffer_shows_what_another_binding_of_its_array_writes(rt: vc.Runtime, optimize: bool) -> None:
    x = rt.array(np.array([1, 0], np.float32))
    rt.kernel(vc.glsl(TWICE, optimize=optimize))(x, x, 5, grid=1)
    assert x.numpy().tolist() == [16, 16]


def test_the_error_of_an_argument_comes_alone(gpu: vc.Runtime) -> None:
    """A lookup that fails inside is no part of it."""
    kernel = gpu.kernel(MULTIPLY)
    with pytest.raises(TypeError) as result:
        kernel(gpu.zeros(4), np.zeros(4, np.float32), gpu.zeros(4))
    assert result.value.__context__ is None
