"""bfloat16, and floats of 8 bits for storage: ml_dtypes is the oracle, with and without it for the library."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import dtypes, nn
from vkcompute.runtime.memory import dlpack

ml_dtypes = pytest.importorskip("ml_dtypes")
NAMES = "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz".split()
HALVES = np.arange(1 << 16).astype(np.uint16).view(np.float16)
BRAINS = np.arange(1 << 16).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


@pytest.fixture(params=["with", "without"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whether the library finds ml_dtypes."""
    monkeypatch.setattr(dtypes, "_ml_dtypes", request.param == "with")
    for name in NAMES:
        vars(dtypes.small_float(name)).pop("dtype", None)
    yield request.param
    for name in NAMES:
        vars(dtypes.small_float(name)).pop("dtype", None)


def same(result: Any, wanted: Any) -> bool:
    """True for equal numbers with equal signs, and NaN in the same places."""
    nan = np.isnan(wanted)
    signs = np.signbit(result) == np.signbit(wanted)
    return bool(np.array_equal(result, wanted, equal_nan=True) and signs[~nan].all())


@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_loaded_and_stored_as_ml_dtypes_does(gpu: vc.Runtime, name: str) -> None:
    wanted = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(1 << 8 * wanted.itemsize).astype(f"u{wanted.itemsize}")
    numbers = gpu.array(codes).view(name).astype(np.float32)
    assert same(numbers.numpy(), codes.view(wanted).astype(np.float32))
    again = numbers.astype(name).view(codes.dtype).numpy().view(wanted).astype(np.float32)
    assert same(again, codes.view(wanted).astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_casts_round_as_ml_dtypes_does(gpu: vc.Runtime, name: str) -> None:
    wanted, rng = np.dtype(getattr(ml_dtypes, name)), np.random.default_rng(0)
    words = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    words = words[~((np.abs(words) < np.finfo(np.float32).tiny) & (words != 0))]  # drivers flush subnormals
    for numbers in (HALVES, BRAINS[np.abs(BRAINS) >= 2.0**-126], words):
        with np.errstate(all="ignore"):
            expected = numbers.astype(wanted).astype(np.float32)
        assert same(gpu.array(numbers).astype(name).astype(np.float32).numpy(), expected)
        assert same(dtypes.numbers_of(dtypes.host_cast(numbers, dtypes.small_float(name))), expected)


@pytest.mark.parametrize("name", NAMES)
def test_casts_of_float64_round_once(gpu: vc.Runtime, name: str) -> None:
    """Beside a number halfway between two, which a rounding to float32 first would reach."""
    wanted = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(1, 1 << 8 * wanted.itemsize - 1).astype(f"u{wanted.itemsize}").view(wanted).astype(np.float64)
    low, high = codes[:-1], codes[1:]
    normal = np.isfinite(low) & np.isfinite(high) & (low >= 2.0**-120)
    low, high = low[normal], high[normal]
    middle = (low + high) / 2
    for near, expected in ((np.nextafter(middle, 0), low), (np.nextafter(middle, np.inf), high)):
        numbers = np.concatenate([near, -near])
        assert same(gpu.array(numbers).astype(name).astype(np.float64).numpy(), np.concatenate([expected, -expected]))
        assert same(
            dtypes.numbers_of(dtypes.host_cast(numbers, dtypes.small_float(name))),
            np.concatenate([expected, -expected]),
        )


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y, "x * y": lambda x, y: x * y, "x / y": lambda x, y: x / y, "x - 3": lambda x, y: x - 3,
    "-x": lambda x, y: -x, "sqrt": lambda x, y: np.sqrt(abs(x)), "maximum": lambda x, y: np.maximum(x, y),
    "where": lambda x, y: np.where(x > y, x, y), "floor": lambda x, y: np.floor(x), "sort": lambda x, y: np.sort(x),
    "copysign": lambda x, y: np.copysign(x, y), "clip": lambda x, y: np.clip(x, -1, 1), "sum": lambda x, y: x.sum(),
    "max": lambda x, y: x.max(), "mean": lambda x, y: x.mean(), "exp": lambda x, y: np.exp(x),
    "x @ y": lambda x, y: x @ y,
    "rows": lambda x, y: x.reshape(20, 50).sum(1), "columns": lambda x, y: x.reshape(20, 50).sum(0),
    "var": lambda x, y: x.var(), "log1p": lambda x, y: np.log1p(abs(x)), "std": lambda x, y: x.reshape(20, 50).std(0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_functions_round_the_result_of_float32(gpu: vc.Runtime, case: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=1000).astype(ml_dtypes.bfloat16) for _ in range(2))
    result = CASES[case](gpu.array(x), gpu.array(y))
    assert result.dtype == vc.bfloat16
    wanted = CASES[case](x.astype(np.float32), y.astype(np.float32)).astype(ml_dtypes.bfloat16).astype(np.float32)
    exact = case in ("x + y", "x * y", "x / y", "x - 3", "-x", "sqrt", "maximum", "where", "floor", "sort", "copysign")
    np.testing.assert_allclose(
        result.astype(np.float32).numpy(), wanted, rtol=0 if exact else 2.0**-7, atol=1e-3 * (not exact)
    )


def test_nextafter_and_spacing_step_by_bits(gpu: vc.Runtime) -> None:
    codes = np.array([0x0001, 0x3F80, 0x3FFF, 0x7F7F, 0x8001, 0xC000], np.uint16)
    x = gpu.array(codes).view(vc.bfloat16)
    up = vnp.nextafter(x, vc.bfloat16(np.inf)).view(np.uint16).numpy()
    np.testing.assert_array_equal(up, [0x0002, 0x3F81, 0x4000, 0x7F80, 0x8000, 0xBFFF])


def test_promotion_is_that_of_jax(gpu: vc.Runtime, package: str) -> None:
    x = gpu.array([1.5, -2.25], dtype=vc.bfloat16)
    others: list[tuple[Any, str]] = [
        (1, "bfloat16"), (1.5, "bfloat16"), (1j, "complex64"), (np.float16(1), "float32"), (np.float32(1), "float32"),
        (np.int8(1), "bfloat16"), (np.int64(1), "bfloat16"), (np.uint64(1), "bfloat16"), (True, "bfloat16"),
        (vc.bfloat16(1), "bfloat16"), (np.complex64(1), "complex64"),
    ]  # fmt: skip
    for other, name in others:
        assert (x * other).dtype.name == name, other
        assert (other * x if not isinstance(other, np.generic) else x * other).dtype.name == name
    assert vnp.result_type(x, np.float64).name == "float64"
    assert vnp.finfo(vc.bfloat16).eps == 2.0**-7
    for pair, name in {
        ("bfloat16", "float16"): "float32",
        ("i8", vc.bfloat16): "bfloat16",
        ("u1", "i1"): "int16",
    }.items():
        assert vnp.promote_types(*pair).name == name
    known = ["bool", "int8", "uint8", "int16", "float16", "float32", *NAMES]
    castable = {to: [name for name in known if vnp.can_cast(name, to)] for to in ("bfloat16", "float8_e5m2", "float16")}
    assert castable["bfloat16"] == ["bool", "int8", "uint8", *NAMES]
    assert castable["float8_e5m2"] == ["bool", "float8_e5m2"]
    assert castable["float16"] == ["bool", "int8", "uint8", "float16", *NAMES[1:]]


def test_data_of_the_host(gpu: vc.Runtime, package: str, tmp_path: Path) -> None:
    x = gpu.array([[1.2, -2.5], [3e38, np.inf]], dtype="bfloat16")
    numbers = [[1.203125, -2.5], [3.00405527e38, np.inf]]
    np.testing.assert_allclose(x.tolist(), numbers, rtol=1e-6)
    assert x[0, 1].item() == -2.5
    assert "-2.5" in repr(x)
    assert "dtype=bfloat16" in repr(x)
    if package == "with":
        assert x.numpy().dtype == ml_dtypes.bfloat16
        assert x.dtype == np.dtype(ml_dtypes.bfloat16)
        assert np.dtype(x.dtype) == ml_dtypes.bfloat16
    else:
        with pytest.raises(TypeError, match=r"install the package ml_dtypes, .* or convert with .astype\('float32'\)"):
            x.numpy()
    vnp.save(tmp_path / "x.npy", x)
    for again in (
        pickle.loads(pickle.dumps(x)),
        vnp.load(tmp_path / "x.npy"),
        vnp.asarray(x.tolist(), dtype=vc.bfloat16),
    ):
        assert again.dtype == vc.bfloat16
        assert again.tolist() == x.tolist()
    x[0] = 0.1
    assert x[0].tolist() == [0.10009765625] * 2
    assert vnp.full(2, 1.01, dtype=vc.bfloat16).tolist() == [1.0078125] * 2
    assert vnp.zeros_like(x).dtype == x.dtype
    assert vc.bfloat16(1.2) == np.float32(1.203125)


class Lent:
    """Data of another library: only DLPack."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}])
def test_dlpack_has_the_code_of_the_type(gpu: vc.Runtime, package: str, name: str, options: dict[str, Any]) -> None:
    x = gpu.array([[1, 2], [3, 4]], dtype=name)
    code = dlpack._code_of(x.__dlpack__(**options))
    assert code.value == {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}.get(name, code.value)
    for given in (x, x.T):
        again = gpu.array(Lent(given))
        assert again.dtype == x.dtype
        assert again.tolist() == given.tolist()


@vc.kernel
def axpy(x: vc.bfloat16[:], y: Any, out: Any, a: vc.bfloat16) -> None:
    i = vc.global_id(0)
    shared = vc.shared(64, vc.bfloat16)
    shared[vc.local_id(0)] = x[i]
    vc.barrier()
    if i < out.size:
        out[i] = a * shared[vc.local_id(0)] + y[i] * 1.7


def test_in_kernels(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=64).astype(ml_dtypes.bfloat16) for _ in range(2))
    out = gpu.zeros(64, vc.bfloat16)
    axpy[1, 64](gpu.array(x), gpu.array(y), out, 1.7)
    product = (ml_dtypes.bfloat16(1.7) * x).astype(ml_dtypes.bfloat16)
    wanted = product + y * ml_dtypes.bfloat16(1.7)
    np.testing.assert_array_equal(out.numpy(), wanted)
    on_host, out = np.zeros_like(x), gpu.zeros(64, vc.bfloat16)
    axpy.simulate[1, 64](x, y, on_host, 1.7)
    axpy.simulate[1, 64](gpu.array(x), gpu.array(y), out, 1.7)
    np.testing.assert_array_equal(on_host, wanted)
    np.testing.assert_array_equal(out.numpy(), wanted)
    with pytest.raises(ValueError, match="arrays of bfloat16 that share memory are not simulated; pass copies"):
        axpy.simulate[1, 64](x, x, on_host, 1.7)


def test_neural_networks(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(3).normal(size=(8, 32)).astype(ml_dtypes.bfloat16)
    wide, narrow = gpu.array(x.astype(np.float32)), gpu.array(x)
    for function in (
        nn.softmax, nn.gelu, lambda x: nn.layer_norm(x, (32,)), lambda x: nn.linear(x, x), lambda x: nn.log_softmax(x),
        lambda x: nn.max_pool2d(x.reshape(1, 1, 8, 32), 2), lambda x: x @ x.T, nn.sigmoid, nn.silu,
    ):  # fmt: skip
        result = function(narrow)
        assert result.dtype == vc.bfloat16
        np.testing.assert_allclose(result.astype(np.float32).numpy(), function(wide).numpy(), rtol=2**-6, atol=2**-7)


@vc.kernel
def tripled(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * 3


def test_kernels_compute_with_floats_of_8_bits_in_float32(gpu: vc.Runtime) -> None:
    x = np.arange(64).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
    out = gpu.zeros(64, vc.float8_e4m3fn)
    tripled(gpu.array(x), out)
    wanted = (x.astype(np.float32) * 3).astype(x.dtype)
    np.testing.assert_array_equal(out.numpy().view(np.uint8), wanted.view(np.uint8))


def test_floats_of_8_bits_are_for_storage(gpu: vc.Runtime) -> None:
    x = gpu.array([0.1, 448, 500, -1e-3], dtype=vc.float8_e4m3fn)
    np.testing.assert_array_equal(x.tolist(), [0.1015625, 448, np.nan, -0.001953125])
    limit = vnp.finfo(vc.float8_e4m3fn).max
    saturated = vnp.clip(gpu.array(np.float32([500, -1e9, 3])), -limit, limit).astype(vc.float8_e4m3fn)
    assert saturated.tolist() == [448, -448, 3]
    assert vnp.concatenate([x, x])[4:].dtype == vc.float8_e4m3fn
    for compute in (lambda: x + x, lambda: x.sum(), lambda: vnp.sqrt(x), lambda: x + gpu.zeros(4, vc.float8_e5m2)):
        with pytest.raises(TypeError, match=r"storage; convert with .astype\(\)"):
            compute()
