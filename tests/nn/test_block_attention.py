"""Attention by one block program, as on GPUs, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barriers import check_barriers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import computes_by_words, lacks

import vkcompute as vc
from vkcompute import ir, nn, tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, build
from vkcompute.blocks.launching.build import lowered as block_lowered
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.ir.function import walk
from vkcompute.nn import block_attention
from vkcompute.nn.programs import attention as programs
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate
from vkcompute.tile.target import MatrixShape

SIZE = 16
HEADS = [
    ((2, 3), (2, 3), (2, 3)),
    ((2, 3), (2, 1), (2, 1)),  # heads of queries that share those of keys
    ((3, 1), (2,), (1, 2)),
    ((), (2,), (2,)),
    ((2,), (), (1,)),
    ((), (), ()),
]


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of the programs that were launched."""
    results: list[Any] = []

    class Counted:
        def __getitem__(self, grid: Any) -> Any:
            def launch(*args: Any, **constants: Any) -> Any:
                results.append(args)
                return programs.attention[grid](*args, **constants)

            return launch

    monkeypatch.setattr(block_attention, "attention", Counted())
    return results


def attention(q: Any, k: Any, v: Any, bias: Any, scale: float) -> Any:
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    with np.errstate(invalid="ignore"):
        scores = q @ k.swapaxes(-1, -2) * scale + bias
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v


def check(runtime: vc.Runtime, arrays: Any, bias: Any = 0, scale: float | None = None, **named: Any) -> None:
    """Compares a result, to the error of its dtype: of scores and weights, for elements of magnitude 1."""
    factor = arrays[0].shape[-1] ** -0.5 if scale is None else scale
    expected = attention(*arrays, bias, factor)
    result = nn.scaled_dot_product_attention(*[runtime.array(array) for array in arrays], scale=scale, **named)
    assert result.dtype == arrays[0].dtype
    eps = np.finfo(result.dtype).eps
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=16 * max(eps, np.finfo(np.float64).eps))


@pytest.mark.rotates
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.data(),
    st.sampled_from(HEADS),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["no", "causal", "bools", "numbers", "keys", "one row"]),
    st.sampled_from([None, 0.5]),
)
def test_heads_lengths_and_masks(
    like_a_gpu: vc.Runtime, launches: list[Any], data: Any, heads: Any, n: int, m: int, kind: str, scale: float | None
) -> None:
    random = np.random.default_rng(n * 41 + m)
    shapes = zip(heads, ((n, SIZE), (m, SIZE), (m, SIZE)), strict=True)
    arrays = [random.uniform(-1, 1, (*head, *shape)).astype(np.float32) for head, shape in shapes]
    stack = np.broadcast_shapes(*heads)
    bias: Any = 0
    mask = None
    if kind == "causal":
        bias = np.where(np.tri(n, m, dtype=bool), 0, -np.inf)
    elif kind == "bools":
        of_heads = data.draw(st.sampled_from([(), stack, (*stack[:1], *[1] * len(stack[1:]))]))
        bools = random.random((*of_heads, n, m)) < 0.5
        bools[..., 0] = True  # each query has a key
        mask, bias = like_a_gpu.array(bools), np.where(bools, 0, -np.inf)
    elif kind in ("numbers", "keys", "one row"):
        shape = {"numbers": (*stack, n, m), "keys": (*stack[:1], *[1] * len(stack[1:]), 1, m), "one row": (m,)}[kind]
        bias = random.uniform(-1, 1, shape).astype(np.float32)
        mask = like_a_gpu.array(bias)
    launches.clear()
    check(like_a_gpu, arrays, bias, scale, attn_mask=mask, is_causal=kind == "causal")
    assert len(launches) == 1


@pytest.mark.rotates
@pytest.mark.parametrize(("size", "v_size", "m"), [(20, 12, 33), (64, 64, 32), (128, 96, 20), (4, 128, 5)])
def test_sizes(like_a_gpu: vc.Runtime, launches: list[Any], size: int, v_size: int, m: int) -> None:
    random, shapes = np.random.default_rng(size), ((70, size), (m, size), (m, v_size))
    check(like_a_gpu, [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes])
    assert len(launches) == 1


@pytest.mark.parametrize(("size", "v_size"), [(6, 8), (8, 6), (132, 8), (0, 8), (8, 0)])
def test_sizes_that_take_products(like_a_gpu: vc.Runtime, launches: list[Any], size: int, v_size: int) -> None:
    random = np.random.default_rng(size)
    arrays = [random.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, size), (7, size), (7, v_size))]
    check(like_a_gpu, arrays, scale=0.5)
    assert not launches


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes(like_a_gpu: vc.Runtime, launches: list[Any], dtype: str) -> None:
    if lacks(like_a_gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    random = np.random.default_rng(0)
    arrays = [random.uniform(-1, 1, shape).astype(dtype) for shape in ((2, 33, 16), (2, 48, 16), (2, 48, 16))]
    check(like_a_gpu, arrays)
    check(like_a_gpu, arrays, np.where(np.tri(33, 48, dtype=bool), 0, -np.inf), is_causal=True)
    assert len(launches) == (0 if computes_by_words(like_a_gpu, dtype) else 2)


def test_scores_beyond_floats_and_rows_without_keys(like_a_gpu: vc.Runtime, launches: list[Any]) -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.uniform(-1, 1, (n, SIZE)).astype(np.float32) for n in (20, 33, 33))
    q[0] *= 1e4  # scores differ by thousands
    q[1] *= 1e30
    q[2] = 0
    q[3, 5] = np.nan
    v[32] = np.inf
    v[5, 3] = np.nan
    bools = random.random((20, 33)) < 0.5
    bools[:, 0] = True
    bools[4] = False  # zeros, but for values that are not finite
    bools[5, 1:] = False
    bools[6, :20] = False  # the first block of keys has none
    bools[6, 21] = True
    bias = np.where(bools, 0, -np.inf)
    expected = attention(q, k, v, bias, 0.25)
    expected[4] = np.where(np.isfinite(v.sum(0)), 0, np.nan)
    arrays = [like_a_gpu.array(host) for host in (q, k, v)]
    result = nn.scaled_dot_product_attention(*arrays, like_a_gpu.array(bools)).numpy()
    assert len(launches) == 1
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(result), np.isposinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(result[finite], expected[finite], atol=1e-4)


def test_heads_of_the_query_share_those_of_the_key(like_a_gpu: vc.Runtime, launches: list[Any]) -> None:
    random = np.random.default_rng(3)
    q, k, v = (random.uniform(-1, 1, (2, heads, n, SIZE)).astype(np.float32) for heads, n in ((6, 9), (2, 20), (2, 20)))
    bias = random.uniform(-1, 1, (6, 9, 20)).astype(np.float32)
    arrays = [like_a_gpu.array(host) for host in (q, k, v)]
    result = nn.scaled_dot_product_attention(*arrays, like_a_gpu.array(bias), enable_gqa=True)
    assert len(launches) == 1
    np.testing.assert_allclose(result.numpy(), attention(q, k.repeat(3, 1), v.repeat(3, 1), bias, 0.25), atol=2e-6)


def test_views_and_lazy_arrays(like_a_gpu: vc.Runtime, launches: list[Any]) -> None:
    """Heads behind rows, as a layer makes them; every other row; what is not computed yet."""
    x = np.random.default_rng(2).uniform(-1, 1, (2, 24, 3, 3 * SIZE)).astype(np.float32)
    array = like_a_gpu.array(x).swapaxes(1, 2) * 1
    parts = [array[..., at : at + SIZE] for at in range(0, 3 * SIZE, SIZE)]
    given_parts = [parts[0][:, :, ::2], parts[1], parts[2]]
    result = nn.scaled_dot_product_attention(*given_parts)
    host = x.swapaxes(1, 2)
    q, k, v = (host[..., at : at + SIZE] for at in range(0, 3 * SIZE, SIZE))
    np.testing.assert_allclose(result.numpy(), attention(q[:, :, ::2], k, v, 0, 0.25), atol=2e-6)
    assert len(launches) == 1


FORMS = (16, 16, 16, False), (64, 64, 32, True), (64, 32, 128, False)


@pytest.mark.pure
@pytest.mark.parametrize(("n_lanes", "side"), [(32, 16), (8, 8)])
@pytest.mark.parametrize(("rows", "keys", "size", "causal"), FORMS)
def test_products_by_cooperative_matrices(
    n_lanes: int, side: int, rows: int, keys: int, size: int, *, causal: bool
) -> None:
    """Loops carry matrices, whose elements are needed where an iteration begins: after the reads of the one before."""
    matrices = (MatrixShape(side, side, side, "float16", "float32"),)
    target = tile.Target(n_lanes, 1024, 49152, overlays=True, stages=True, matrices=matrices)
    constants = {
        "SCALE": 0.25, "CAUSAL": causal, "HALVES": True, "ROWS": rows, "KEYS": keys, "SIZE": size, "V_SIZE": size,
        "WHOLE_KEYS": False, "WHOLE_SIZE": True, "WHOLE_V_SIZE": True,
    }  # fmt: skip
    names = programs.attention.arg_names
    types = [ArrayType("f" if name == "mask_ptr" else "e", False, True) for name in names[:5]]
    signature = dict(enumerate([*types, *[IntType("int32", 1)] * (len(names) - 5 - len(constants))]))
    values = {names.index(name): value for name, value in constants.items()}
    options = BlockOptions(4, target, CompileOptions())
    definition = programs.attention.definition
    lowered = block_lowered(definition, build(definition, values, signature, options), options).function
    ir.verify(lowered)
    check_barriers(lowered)
    assert any(op.code == "multiply_matrices" for op in walk(lowered.body))
    validate(Module.parse(ir.lower(lowered).spirv))
