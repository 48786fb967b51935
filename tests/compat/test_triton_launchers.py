"""What libraries use around their Triton kernels: bases, tuners, attributes of kernels, and arguments of their own."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compat.triton.runtime.autotuner import Autotuner
from vkcompute.compat.triton.runtime.jit import KernelInterface

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@triton.jit
def add_one(x_ptr, n, N: tl.constexpr = 16):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def add_two(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 2)


class Counting(KernelInterface):
    def __init__(self, fn: Any) -> None:
        self.fn, self.launches = fn, list[Any]()

    def run(self, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        self.launches.append((grid, warmup))
        return self.fn[grid](*args, **named)


def test_launchers_of_libraries() -> None:
    x, counting = np.zeros(16), Counting(add_one)
    counting[(1,)](x, 4, N=16)
    assert counting.launches == [((1,), False)]
    assert x.sum() == 4
    assert isinstance(add_one, triton.KernelInterface)


class Tuner(Autotuner):
    """As in FlagGems: the parts of a tuner are called one by one."""

    def __init__(self, fn: Any, key: list[str], **pruning: Any) -> None:
        configs = [triton.Config({"N": n}, num_warps=1) for n in (8, 16)]
        super().__init__(
            fn, fn.arg_names, configs, key, None, ["x_ptr"], None, post_hook=None, prune_configs_by=pruning
        )

    def run(self, *args: Any, **named: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        assert self.keys == ["n", "CHUNK"]
        assert self.do_bench is not None
        assert [config.kwargs["N"] for config in self.prune_configs(named)] == [16]
        times = [self._bench(*args, config=config, **named)[0] for config in self.configs]
        assert len(times) == 2
        self.pre_hook({**self.nargs, **named}, reset_only=True)
        return super().run(*args, **named)


def test_tuners_of_libraries() -> None:
    def prune(configs: Any, nargs: dict[str, Any], **named: Any) -> list[Any]:
        return [config for config in configs if config.kwargs["N"] >= nargs["n"]]

    tuned = Tuner(add_one, ["n", "CHUNK"], early_config_prune=prune)  # CHUNK is no parameter
    tuned.do_bench = lambda launch, quantiles: [launch() and 0.0, 0.0, 0.0]
    x = np.zeros(16)
    tuned[(1,)](x, 16)
    assert (x == 1).all()  # measured launches are undone
    assert (tuned.early_config_prune, tuned.perf_model, tuned.configs_top_k) == (prune, None, 1.0)


def test_attributes_of_programs() -> None:
    assert isinstance(add_one.cache_key, str)
    assert len({add_one.cache_key, triton.jit(add_one.fn).cache_key, add_two.cache_key}) == 2
    assert add_one.__globals__ is add_one.fn.__globals__
    assert add_one.src.startswith("def add_one(")
    x, n, constant = add_one.params
    assert [item.name for item in (x, n, constant)] == add_one.arg_names
    assert (x.num, n.is_constexpr, n.has_default) == (0, False, False)
    assert (constant.num, constant.is_constexpr, constant.default) == (2, True, 16)
    tuned = triton.autotune(configs=[triton.Config({})], key=[])(triton.heuristics({"n": lambda args: 4})(add_one))
    assert isinstance(tuned.base_fn, FunctionType)
    assert tuned.base_fn is add_one.base_fn is add_one.fn
    assert list(inspect.signature(Autotuner.__init__).parameters)[1:7] == [
        "fn", "arg_names", "configs", "key", "reset_to_zero", "restore_value"
    ]  # fmt: skip


def test_names_of_no_parameter_have_no_effect() -> None:
    kernel = triton.jit(add_one.fn, do_not_specialize=["size", 9], do_not_specialize_on_alignment=["stride"])
    x = np.zeros(16)
    kernel[(1,)](x, 16, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=1)
    assert (x == 1).all()


def test_a_constant_is_specialized() -> None:
    with pytest.raises(ValueError, match=r"N of add_one is a tl\.constexpr"):
        triton.jit(add_one.fn, do_not_specialize=["N"])[(1,)](np.zeros(16), 16)


def test_one_program_is_a_cooperative_grid() -> None:
    x = np.zeros(16)
    add_one[(1, 1)](x, 16, launch_cooperative_grid=True)
    with pytest.raises(ValueError, match="launch_cooperative_grid=True"):
        add_one[(2,)](x, 16, launch_cooperative_grid=True)
    assert (x == 1).all()


def test_ints_of_more_than_64_bits_overflow() -> None:
    with pytest.raises(OverflowError, match="at most 64 bits"):
        add_one[(1,)](np.zeros(16), 2**64)


def test_constants_on_the_host() -> None:
    ten = tl.constexpr(10)
    assert 3 <= ten < 11
    assert ten == tl.constexpr(tl.constexpr(10))
    assert ten != 9
    assert not tl.constexpr(0)
    total = 1 + ten * 2 - tl.constexpr(1)
    assert isinstance(total, tl.constexpr)
    assert (total.value, (2**ten).value, (-ten).value, list(range(ten))[-1]) == (20, 1024, -10, 9)
    assert {ten: 1}[tl.constexpr(10)] == 1


class Storage:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def nbytes(self) -> int:
        return self.array.nbytes


class View:
    """An address in a storage, as FlagGems passes it for a strided buffer."""

    def __init__(self, array: np.ndarray, offset: int) -> None:
        self.dtype, self._storage, self._offset = array.dtype, Storage(array), offset

    def data_ptr(self) -> int:
        return self._storage.data_ptr() + self._offset * self.dtype.itemsize

    def untyped_storage(self) -> Storage:
        return self._storage


def test_addresses_in_storages() -> None:
    x = np.zeros(32, np.float32)
    add_one[(1,)](View(x, 16), 16)
    assert x.tolist() == [0] * 16 + [1] * 16
    holder = type("Bare", (), {"dtype": x.dtype, "data_ptr": lambda self: 0})()
    with pytest.raises(TypeError, match=r"a Bare with data_ptr\(\) has untyped_storage\(\)"):
        add_one[(1,)](holder, 16)
    backwards = View(x, 31)
    backwards.stride = lambda: (-1,)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"got a stride of -1; pass a copy"):
        add_one[(1,)](backwards, 16)


def test_reinterpreted_views_of_the_host() -> None:
    x = np.full(32, -1, np.int16)
    add_one[(1,)](triton.reinterpret(x[::2], tl.uint16), 2, N=2)
    assert x[:3].tolist() == [0, 0, -1]


@tl.core.builtin
def listed(*values: Any, _semantic: Any = None) -> list[Any]:
    assert _semantic is not None
    return list(values)


@triton.constexpr_function
def middle(values: list[int]) -> int:
    return values[1]


@triton.jit
def takes_middle(x_ptr):
    m: tl.constexpr = middle(listed(4, 8, 16))
    tl.store(x_ptr + tl.arange(0, m), m)


def test_functions_of_the_host_extend_the_language() -> None:
    x = np.zeros(8)
    takes_middle[(1,)](x)
    assert (x == 8).all()
