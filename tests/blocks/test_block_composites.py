"""Composite arguments: tuples, named tuples and tensor descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.blocks.launching.composites import assembled, flattened
from vkcompute.blocks.launching.program import block_program
from vkcompute.compat.triton.tools.tensor_descriptor import TensorDescriptor
from vkcompute.compiled.composites import all_leaf_names

N = 64


class On:
    """Launches on a machine, with arrays of it, on the device or interpreted."""

    def __init__(self, gpu: vkcompute.Runtime | None) -> None:
        self.gpu = gpu

    def array(self, data: Any) -> Any:
        return np.array(data) if self.gpu is None else self.gpu.array(np.asarray(data))

    def program(self, program: Any) -> Any:
        return program.interpret if self.gpu is None else program


@pytest.fixture
def on(machine: vkcompute.Runtime | None) -> On:
    return On(machine)


def numbers(seed: int, shape: Any = N, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(dtype)


# -- tuples -----------------------------------------------------------------------------------------------------------


@triton.jit
def combined(inputs, factors, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, (second, offset, optional) = inputs
    total = tl.load(first + at, mask=at < n) * factors[0]
    total += tl.load(second + at, mask=at < n) * factors[1] + offset
    if optional is not None:
        total += tl.load(optional + at, mask=at < n)
    tl.static_assert(len(inputs) == 2 and len(inputs[1]) == 3)
    tl.store(out_ptr + at, total, mask=at < n)


@pytest.mark.parametrize("optional", [False, True])
def test_nested_tuples(on: On, *, optional: bool) -> None:
    """Launches with other numbers take the same plans, and 1, multiples of 16 and other types are other programs."""
    x, y, z = (numbers(seed) for seed in range(3))
    a, b, c = (on.array(host) for host in (x, y, z))
    for one, other, offset in [
        (2, 3, 5),
        (7, 11, 5),
        (1, 3, 32),
        (1, 4, 48),
        (0.5, 3, 1),
        (0.25, 1, 1),
        (0, 16, -1),
    ] * 2:
        out = on.array(np.zeros(N, np.float32))
        inputs = a, (b, offset, c if optional else None)
        on.program(combined)[(4,)](inputs, (one, other), out, 50, BLOCK=16)
        wanted = x * np.float32(one) + y * other + offset + (z if optional else 0)
        np.testing.assert_array_equal(np.asarray(out)[:50], wanted[:50])
        assert not np.asarray(out)[50:].any()


@triton.jit
def copied_all(in_ptrs, out_ptrs, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in tl.static_range(len(in_ptrs)):
        tl.store(out_ptrs[i] + at, tl.load(in_ptrs[i] + at))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_tuples_of_arrays_of_several_dtypes(on: On, n: int) -> None:
    dtypes = [np.float32, np.int32, np.uint8, np.bool_, np.int16][:n]
    inputs = [numbers(at, dtype=dtype) for at, dtype in enumerate(dtypes)]
    outputs = [on.array(np.zeros(N, dtype)) for dtype in dtypes]
    on.program(copied_all)[(1,)](tuple(map(on.array, inputs)), tuple(outputs), BLOCK=N)
    for result, wanted in zip(outputs, inputs, strict=True):
        np.testing.assert_array_equal(np.asarray(result), wanted)


@triton.jit
def exchanged(pair, steps, BLOCK: tl.constexpr):
    one, other = pair
    at = tl.arange(0, BLOCK)
    for _ in range(steps):
        x, y = tl.load(one + at), tl.load(other + BLOCK - 1 - at)
        tl.store(one + at, y + 1)
        tl.store(other + at, x * 2)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 16), (16, 0), (0, 64)])
def test_arrays_of_a_tuple_that_overlap(gpu: vkcompute.Runtime, first: int, second: int) -> None:
    data = numbers(3, 160)
    memory = gpu.array(data)
    for _ in range(2):
        exchanged[(1,)]((memory[first : first + N], memory[second : second + N]), 3, BLOCK=N)
        one, other = data[first : first + N], data[second : second + N]
        for _ in range(3):
            x, y = one.copy(), other[::-1].copy()
            one[:] = y + 1
            other[:] = x * 2
    np.testing.assert_array_equal(memory.numpy(), data)


def test_an_empty_grid_needs_no_other_runtime(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.compiled.launches.current_runtime", pytest.fail)
    assert exchanged[(0,)]((gpu.zeros(N), gpu.zeros(N)), (1, 2), BLOCK=16).done()


def test_a_text_in_a_tuple_can_be_a_constant(gpu: vkcompute.Runtime) -> None:
    with pytest.raises(TypeError, match=r"got str for options\[0\]; .*tl.constexpr\(options\[0\]\) in its place"):
        constants[(1,)](gpu.zeros(16), ("half", 2), BLOCK=16)


@triton.jit
def annotated(numbers: tl.int64, flags: tl.int1, out_ptr):
    tl.static_assert(numbers[0].dtype == tl.int64 and numbers[1].dtype == tl.int64 and flags[0].dtype == tl.int1)
    tl.store(out_ptr, (numbers[0] * numbers[1]).to(tl.float32))


def test_annotations_are_those_of_each_leaf() -> None:
    out = np.zeros(1, np.float32)
    annotated.interpret[(1,)]((1, 1 << 20), (1,), out)
    assert out[0] == 1 << 20
    with pytest.raises(TypeError, match=r"numbers\[1\] is annotated as tl\.int64; got 0\.5"):
        annotated.interpret[(1,)]((1, 0.5), (1,), out)


@triton.jit(do_not_specialize=["steps"])
def counted(out_ptr, steps):
    tl.static_assert(steps[0].dtype == tl.int32)
    tl.store(out_ptr, steps[0] + steps[1][0])


def test_ints_that_are_not_specialized(on: On) -> None:
    out = on.array(np.zeros(1, np.int32))
    on.program(counted)[(1,)](out, (1, (1,)))
    assert np.asarray(out)[0] == 2


@triton.jit
def constants(out_ptr, options, BLOCK: tl.constexpr):
    tl.static_assert(options[0] == "twice" and options[1] == tl.float32 and options[2][0] == 3)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.full((BLOCK,), options[2][0], options[1]))


def test_constants_in_tuples(on: On) -> None:
    out = on.array(np.zeros(8, np.float32))
    options = tl.constexpr("twice"), tl.constexpr(tl.float32), (tl.constexpr(3),)
    on.program(constants)[(1,)](out, options, BLOCK=8)
    assert np.asarray(out).tolist() == [3] * 8


def test_brain_floats_in_tuples(on: On) -> None:
    words = (numbers(1).view(np.uint32) >> 16).astype(np.uint16)
    out = on.array(np.zeros(N, np.float32))
    on.program(copied_all)[(1,)]((triton.reinterpret(on.array(words), tl.bfloat16),), (out,), BLOCK=N)
    np.testing.assert_array_equal(np.asarray(out), (words.astype(np.uint32) << 16).view(np.float32))


@triton.jit
def of_table(given, out_ptr, BLOCK: tl.constexpr):
    at, (table, factor) = tl.arange(0, BLOCK), given
    pointer = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, factor * tl.load(pointer + at))


def test_tables_of_pointers_in_tuples(on: On) -> None:
    out = on.array(np.zeros(N, np.float32))
    table = triton.PointerTable([on.array(numbers(0)), on.array(numbers(1))])
    for factor in (3, 5):
        on.program(of_table)[(1,)]((table, factor), out, BLOCK=N)
        np.testing.assert_array_equal(np.asarray(out), factor * numbers(1))


# -- named tuples -----------------------------------------------------------------------------------------------------


class Matrix(NamedTuple):
    ptr: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Closure(NamedTuple):
    fn: Any
    captured: tuple[Any, ...]


@triton.jit
def plus(x, y):
    return x + y


@triton.jit
def times(x, y):
    return x * y


@triton.jit
def places(matrix, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (i < matrix.shape[0]) & (j < matrix.shape[1])
    return matrix.ptr + i * matrix.stride[0] + j * matrix.stride[1], inside


@triton.jit
def applied(closure, x, out, BLOCK: tl.constexpr):
    pointers, inside = places(x, BLOCK)
    computed = closure.fn(tl.load(pointers, mask=inside), *closure.captured)
    result = Matrix(ptr=out.ptr, shape=x.shape, stride=out.stride)
    pointers, inside = places(result, BLOCK)
    tl.store(pointers, computed, mask=inside)


def matrix(array: Any) -> Matrix:
    return Matrix(array, array.shape, tuple([step // array.dtype.itemsize for step in array.strides]))


def test_named_tuples_and_functions(on: On) -> None:
    data = numbers(4, (9, 13))
    x, out = on.array(data), on.array(np.zeros((9, 13), np.float32))
    for function, number, wanted in ((plus, 3.0, data + 3), (times, 3.0, data * 3), (times, 5.0, data * 5)):
        on.program(applied)[(1,)](Closure(function, (number,)), matrix(x), matrix(out), BLOCK=16)
        np.testing.assert_array_equal(np.asarray(out), wanted)


# -- tensor descriptors -----------------------------------------------------------------------------------------------


@triton.jit
def doubled(x, out, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BM, tl.program_id(1) * BN
    tl.static_assert(isinstance(x, tl.tensor_descriptor) and x.block_shape == (BM, BN))
    out.store([at[0], at[1]], x.load([at[0], at[1]]) * 2)


def views(array: Any) -> list[Any]:
    """Views of an array of 20 x 24: contiguous, with gaps, transposed, of every second column."""
    return [array, array[3:16, 5:22], array.T[2:20, 1:17], array[1:, ::2]]


@pytest.mark.parametrize("source", range(4))
@pytest.mark.parametrize("target", range(4))
def test_descriptors_of_views(on: On, source: int, target: int) -> None:
    x, out = views(on.array(numbers(5, (20, 24))))[source], views(on.array(np.zeros((20, 24), np.float32)))[target]
    blocks = [4, 8]
    grid = -(-x.shape[0] // 4), -(-x.shape[1] // 8)
    on.program(doubled)[grid](
        TensorDescriptor.from_tensor(x, blocks), TensorDescriptor.from_tensor(out, blocks), BM=4, BN=8
    )
    wanted = np.zeros(out.shape, np.float32)
    rows, columns = (min(pair) for pair in zip(x.shape, out.shape, strict=True))
    wanted[:rows, :columns] = 2 * np.asarray(x)[:rows, :columns]
    np.testing.assert_array_equal(np.asarray(out), wanted)


@triton.jit
def padded(x, out_ptr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out_ptr + i * N + j, tl.load_tensor_descriptor(x, [-1, 2]))


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding(on: On, padding: str) -> None:
    data = numbers(6, (3, 5))
    out = on.array(np.zeros((8, 8), np.float32))
    on.program(padded)[(1,)](TensorDescriptor.from_tensor(on.array(data), [8, 8], padding), out, M=8, N=8)
    wanted = np.full((8, 8), 0 if padding == "zero" else np.nan, np.float32)
    wanted[1:4, :3] = data[:, 2:]
    np.testing.assert_array_equal(np.asarray(out), wanted)


@triton.jit
def added(descriptors, out):
    for i in tl.static_range(2):
        out.atomic_add([0], descriptors[i].load([tl.program_id(0) * 4]))


def test_descriptors_in_tuples(on: On) -> None:
    one, other = numbers(7, 16, np.int32), numbers(8, 16, np.int32)
    given = tuple([TensorDescriptor(on.array(host), [n], [1], [4]) for host, n in ((one, 16), (other, 7))])
    out = on.array(np.zeros(4, np.int32))
    on.program(added)[(4,)](given, TensorDescriptor(out, [4], [1], [4]))
    other[7:] = 0
    np.testing.assert_array_equal(np.asarray(out), (one + other).reshape(4, 4).sum(0))


def test_descriptors_of_brain_floats(on: On) -> None:
    words = (numbers(9, (4, 8)).view(np.uint32) >> 16).astype(np.uint16)
    x, out = (triton.reinterpret(on.array(host), tl.bfloat16) for host in (words, np.zeros_like(words)))
    on.program(doubled)[(1, 1)](*[TensorDescriptor.from_tensor(item, [4, 8]) for item in (x, out)], BM=4, BN=8)
    result, wanted = ((np.asarray(host).astype(np.uint32) << 16).view(np.float32) for host in (out.base, words))
    np.testing.assert_array_equal(result, 2 * wanted)


def test_one_block_shape_after_another(on: On) -> None:
    data = numbers(10, (8, 16))
    x, out = (TensorDescriptor.from_tensor(on.array(host), [1, 1]) for host in (data, np.zeros_like(data)))
    for blocks in ([4, 8], [2, 16], [4, 8]):
        out.base[...] = 0
        x.block_shape = out.block_shape = [*map(np.int64, blocks)]
        on.program(doubled)[8 // blocks[0], 16 // blocks[1]](x, out, *blocks)
        np.testing.assert_array_equal(np.asarray(out.base), 2 * data)


# -- launches ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_host_arrays_are_written_back(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.runtime.runtime._default", [gpu])
    data = numbers(11, (8, 8))
    out = np.zeros((8, 16), np.float32)[:, ::2]
    doubled[(2, 1)](TensorDescriptor.from_tensor(data, [4, 8]), TensorDescriptor.from_tensor(out, [4, 8]), BM=4, BN=8)
    np.testing.assert_array_equal(out, 2 * data)
    copies = np.zeros(64, np.float32)
    copied_all[(1,)]((data,), (copies,), BLOCK=N)
    np.testing.assert_array_equal(copies, data.ravel())
    frozen = np.zeros(64, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="copied_all writes an array that is read-only"):
        copied_all[(1,)]((data,), (frozen,), BLOCK=N)


def test_inputs_of_a_graph(gpu: vkcompute.Runtime) -> None:
    y, out = gpu.array(numbers(1)), gpu.zeros(N)
    with gpu.record(x=gpu.array(numbers(0)), scale=1.0) as graph:
        combined[(4,)]((graph["x"], (y, 5, None)), (graph["scale"], 2), out, N, BLOCK=16)
    for seed, scale in ((2, 3.0), (3, 0.5)):
        graph.run(x=gpu.array(numbers(seed)), scale=scale)
        np.testing.assert_array_equal(out.numpy(), scale * numbers(seed) + 2 * numbers(1) + 5)
    with gpu.record(x=gpu.zeros((4, 8))) as graph:
        result = gpu.zeros((4, 8))
        x, target = (TensorDescriptor.from_tensor(item, [4, 8]) for item in (graph["x"], result))
        doubled[(1, 1)](x, target, BM=4, BN=8)
    graph.run(x=gpu.array(numbers(4, (4, 8))))
    np.testing.assert_array_equal(result.numpy(), 2 * numbers(4, (4, 8)))


def test_compiled_programs_and_options(gpu: vkcompute.Runtime) -> None:
    x, out = gpu.array(numbers(12, (4, 8))), gpu.zeros((4, 8))
    given = [TensorDescriptor.from_tensor(item, [4, 8]) for item in (x, out)]
    compiled = doubled.warmup(*given, BM=4, BN=8, grid=(1, 1), num_warps=1)
    compiled[(1, 1)](*given)
    np.testing.assert_array_equal(out.numpy(), 2 * numbers(12, (4, 8)))
    assert doubled.kernel(*given, 4, 8, grid=(1, 1), num_warps=1).local_size <= (32, 1, 1)


@triton.jit
def checked(given, BLOCK: tl.constexpr):
    tl.device_assert(tl.load(given[0] + tl.arange(0, BLOCK)) < 3, "small")


def test_assertions_are_checked(gpu: vkcompute.Runtime) -> None:
    x = gpu.array(np.arange(8, dtype=np.int32))
    checked[(1,)]((x,), BLOCK=8)
    with pytest.raises(vkcompute.KernelError, match="assertion failed: small"):
        checked[(1,)]((x,), BLOCK=8, debug=True).result()


def test_plans_and_the_disk(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out = gpu.array(numbers(0)), gpu.array(numbers(1)), gpu.zeros(N)
    combined[(4,)]((x, (y, 5, None)), (3, 7), out, N, BLOCK=16)
    fresh = triton.JITFunction(combined.fn)
    monkeypatch.setattr("vkcompute.blocks.launching.block_source.specialize", None)
    fresh[(4,)]((x, (y, 9, None)), (11, 13), out, N, BLOCK=16)
    np.testing.assert_array_equal(out.numpy(), numbers(0) * 11 + numbers(1) * 13 + 9)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):  # another form is another program
        fresh[(4,)]((x, (y, 9, y)), (11, 13), out, N, BLOCK=16)


def test_entries_on_disk_of_forms_with_the_same_leaves(gpu: vkcompute.Runtime) -> None:
    """The leaves of both launches have the same types."""
    x, out = gpu.array(numbers(0)), gpu.zeros(1, np.int32)
    for argument, wanted in (((x, (x,)), 1), (((x,), x), 2), ((x, Closure(x, ())), 3)):
        triton.JITFunction(structured.fn)[(1,)](argument, out)
        assert out.numpy()[0] == wanted


@block_program
def structured(given, out_ptr):
    if isinstance(given[0], tuple):
        tl.store(out_ptr, 2)
    elif hasattr(given[1], "captured"):
        tl.store(out_ptr, 3)
    else:
        tl.store(out_ptr, 1)


# -- tuning -----------------------------------------------------------------------------------------------------------


def _set_blocks(given: dict[str, Any]) -> None:
    given["x"].block_shape = given["out"].block_shape = [given["BM"], 8]


@triton.jit
def accumulated(x, out, BM: tl.constexpr):
    row = tl.program_id(0) * BM
    values = x.load([row, 0])
    out.atomic_add([row, 0], values)
    x.store([row, 0], values + 1)


def test_tuning_resets_and_restores_descriptors(
    gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    configs = [triton.Config({"BM": n}, num_warps=1, pre_hook=_set_blocks) for n in (2, 4)]
    tuned = triton.autotune(configs, key=["x"], reset_to_zero=["out"], restore_value=["x"])(accumulated)
    data = numbers(13, (8, 8), np.int32)
    x, out = gpu.array(data), gpu.array(np.ones_like(data))
    given = [TensorDescriptor.from_tensor(item, [1, 1]) for item in (x, out)]
    tuned[lambda meta: (8 // meta["BM"],)](*given)
    np.testing.assert_array_equal(out.numpy(), data)
    np.testing.assert_array_equal(x.numpy(), data + 1)
    tuned[lambda meta: (8 // meta["BM"],)](*given)
    np.testing.assert_array_equal(out.numpy(), 2 * data + 1)


def test_tuples_in_keys(gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    configs = [triton.Config({"BLOCK": n}) for n in (16, 32)]
    tuned = triton.autotune(configs, key=["inputs", "factors"], reset_to_zero=["out_ptr"])(combined)
    measured = []
    monkeypatch.setattr(tuned, "_fastest", lambda configs, *_: measured.append(0) or configs[0])
    arrays = [gpu.array(numbers(seed)) for seed in range(3)]

    def launch(*factors: float, optional: Any = None) -> None:
        out = gpu.zeros(N)
        grid = lambda meta: (N // meta["BLOCK"],)  # noqa: E731
        tuned[grid]((arrays[0], (arrays[1], 7, optional)), factors, out, N)
        wanted = numbers(0) * factors[0] + numbers(1) * factors[1] + 7 + (0 if optional is None else numbers(2))
        np.testing.assert_array_equal(out.numpy(), wanted)

    for factors, optional, wanted in (
        ((33, 35), None, 1),
        ((34, 37), None, 1),  # as many bits
        ((33, 77), None, 2),
        ((33, 35), arrays[2], 3),
        ((33, 35), arrays[2], 3),
    ):
        launch(*factors, optional=optional)
        assert len(measured) == wanted


def test_numbers_are_not_reset(gpu: vkcompute.Runtime) -> None:
    configs = [triton.Config({"BLOCK": n}) for n in (16, 32)]
    tuned = triton.autotune(configs, key=[], reset_to_zero=["factors"])(combined)
    x = gpu.zeros(N)
    with pytest.raises(TypeError, match=r"reset_to_zero and restore_value name arrays; got \(1, 2\)"):
        tuned[(1,)]((x, (x, 7, None)), (1, 2), x, N)


@triton.heuristics({"BLOCK": lambda given: given["in_ptrs"][0].shape[0]})
@triton.jit
def copied_whole(in_ptrs, out_ptrs, BLOCK: tl.constexpr):
    copied_all(in_ptrs, out_ptrs, BLOCK)


def test_heuristics_have_the_tuples(gpu: vkcompute.Runtime) -> None:
    out = gpu.zeros(N)
    copied_whole[(1,)]((gpu.array(numbers(0)),), (out,))
    np.testing.assert_array_equal(out.numpy(), numbers(0))


# -- leaves -----------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    one: Any
    other: Any


LEAVES = st.one_of(st.integers(), st.floats(allow_nan=False), st.none(), st.text(max_size=3))
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4).map(tuple), st.tuples(parts, parts).map(lambda two: Pair(*two))
    ),
    max_leaves=12,
)


@pytest.mark.pure
@given(st.lists(TREES, max_size=4))
def test_values_are_made_of_their_leaves_again(args: list[Any]) -> None:
    names = [f"x{at}" for at in range(len(args))]
    forms, leaves = flattened(args, [False] * len(args))
    if forms is None:
        assert leaves == tuple(args)
        assert not any(isinstance(arg, tuple) for arg in args)
        return
    assert not any(isinstance(leaf, tuple) for leaf in leaves)
    by_name = dict(zip(names, args, strict=True))
    assert [eval(name, by_name.copy()) for name in all_leaf_names(names, forms)] == list(leaves)
    unused: Any = None
    again = assembled(unused, names, forms, leaves)
    assert again == args
    assert repr(again) == repr(args)  # named tuples equal plain ones


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.pure
def test_accesses_out_of_bounds_name_the_leaf() -> None:
    x, short = np.zeros(N, np.float32), np.zeros(5, np.float32)
    with pytest.raises(vkcompute.KernelError, match=r"accesses element 5 of inputs\[1\]\[0\], which has 5; mask it"):
        combined.interpret[(4,)]((x, (short, 1, None)), (2, 3), x.copy(), N, BLOCK=16)


@pytest.mark.pure
def test_leaves_that_are_no_arguments() -> None:
    x = np.zeros(N, np.float32)
    with pytest.raises(TypeError, match=r"got a list for inputs\[1\]; pass tuple\(inputs\[1\]\)"):
        combined.interpret[(4,)]((x, [x, 1, None]), (2, 3), x, N, BLOCK=16)
    with pytest.raises(TypeError, match=r"got str for factors\[1\]"):
        combined.interpret[(4,)]((x, (x, 1, None)), (2, "3"), x, N, BLOCK=16)


@pytest.mark.pure
def test_descriptors_that_are_refused() -> None:
    x, n = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.int32)
    with pytest.raises(TypeError, match="has an array as its base; got int"):
        TensorDescriptor(5, [8], [1], [8])
    with pytest.raises(TypeError, match="describes an array; got list"):
        TensorDescriptor.from_tensor([1, 2], [2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"of one length, at least 1; got \[8, 8\], \[8, 1\] and \[8\]"):
        TensorDescriptor.from_tensor(x, [8])
    with pytest.raises(ValueError, match="padding is 'zero' or 'nan'; got 'one'"):
        TensorDescriptor.from_tensor(x, [8, 8], "one")
    odd = np.zeros(4, np.dtype([("small", np.int8), ("large", np.float32)]))["large"]
    with pytest.raises(ValueError, match=r"are \(5,\) bytes, and an element has 4; pass a \.copy\(\)"):
        TensorDescriptor.from_tensor(odd, [4])
    for base, blocks, padding, error, text in (
        (x, [4.0, 8], "zero", TypeError, r"the block shape of a tensor descriptor has ints; got \[4\.0, 8\]"),
        (x, [3, 8], "zero", vkcompute.KernelError, "the tensor descriptor for x: the lengths of a block are powers of"),
        (n, [4, 8], "nan", vkcompute.KernelError, "the tensor descriptor for x: padding_option 'nan' takes floats"),
    ):
        given = TensorDescriptor.from_tensor(base, blocks, padding)
        with pytest.raises(error, match=text):
            doubled.interpret[(2, 1)](given, TensorDescriptor.from_tensor(x, [4, 8]), BM=4, BN=8)
    given = TensorDescriptor(x, [8, 8.5], [8, 1], [4, 8])  # type: ignore[list-item]
    with pytest.raises(vkcompute.KernelError, match="the tensor descriptor for x: shape is a tuple of integers"):
        doubled.interpret[(2, 1)](given, TensorDescriptor.from_tensor(x, [4, 8]), BM=4, BN=8)
    given = TensorDescriptor.from_tensor(x, [4, 8])
    given.block_shape = [8]
    with pytest.raises(vkcompute.KernelError, match="the tensor descriptor for x: shape has a number per axis"):
        doubled.interpret[(2, 1)](given, given, BM=4, BN=8)
