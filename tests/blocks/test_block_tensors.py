"""PyTorch's tensors as arguments of block programs; where PyTorch is not installed, a class like its tensors."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import Runtime
from vkcompute.compat.triton.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")


class _Tensor:
    """A view of a storage, with the attributes of PyTorch's tensors that launches use."""

    def __init__(
        self, storage: np.ndarray, start: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any
    ) -> None:
        self._storage, self._start, self.shape, self._strides, self.dtype = storage, start, shape, strides, dtype
        self.device = SimpleNamespace(type="cpu")

    def storage_offset(self) -> int:
        return self._start

    def untyped_storage(self) -> Any:
        return SimpleNamespace(nbytes=lambda: self._storage.nbytes)

    def element_size(self) -> int:
        return self._storage.itemsize

    def stride(self, axis: int | None = None) -> Any:
        return self._strides if axis is None else self._strides[axis]

    def detach(self) -> _Tensor:
        return self

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> _Tensor:
        return _Tensor(self._storage, start, shape, strides, self.dtype)

    def view(self, dtype: Any) -> _Tensor:
        return _Tensor(self._storage, self._start, self.shape, self._strides, dtype)

    def transpose(self, one: int, other: int) -> _Tensor:
        axes = [*range(len(self.shape))]
        axes[one], axes[other] = axes[other], axes[one]
        shape, strides = (tuple([item[axis] for axis in axes]) for item in (self.shape, self._strides))
        return _Tensor(self._storage, self._start, shape, strides, self.dtype)

    def __getitem__(self, at: int) -> _Tensor:
        return _Tensor(
            self._storage, self._start + at * self._strides[0], self.shape[1:], self._strides[1:], self.dtype
        )

    def numpy(self) -> np.ndarray:
        size = self._storage.itemsize
        strides = tuple([stride * size for stride in self._strides])
        return np.lib.stride_tricks.as_strided(self._storage[self._start :], self.shape, strides)


def _from_numpy(array: np.ndarray) -> _Tensor:
    strides = tuple([stride // array.itemsize for stride in array.strides])
    return _Tensor(array.reshape(-1), 0, array.shape, strides, array.dtype)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        import torch
    except ImportError:
        module = SimpleNamespace(Tensor=_Tensor, from_numpy=_from_numpy, bfloat16="bfloat16", uint16="uint16")
        monkeypatch.setitem(sys.modules, "torch", module)
        return module
    return torch


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@triton.jit
def doubled_rows(x_ptr, stride_row, stride_column, out_ptr, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_row + column * stride_column, mask=column < n)
    tl.store(out_ptr + row * n + column, 2 * x, mask=column < n)


@triton.jit
def exchanged(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(x_ptr + at, y)
    tl.store(y_ptr + at, x)


@pytest.fixture(params=["device", "interpreted"])
def launched(request: pytest.FixtureRequest, gpu: Runtime, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("vkcompute.runtime.runtime._default", [gpu])
    return (lambda program: program) if request.param == "device" else (lambda program: program.interpret)


def test_results_are_in_the_tensor(torch: Any, launched: Any) -> None:
    x, y, out = (np.arange(100, dtype=np.float32) * n for n in (1, 10, 0))
    tensors = [torch.from_numpy(item) for item in (x, y, out)]
    launched(add)[(4,)](*tensors, 100, BLOCK=32)
    assert np.array_equal(out, x + y)


def test_a_kernel_is_compiled_for_host_arrays(torch: Any, gpu: Runtime) -> None:
    x = np.zeros(64, np.float32)
    for arrays in ((x, x), (torch.from_numpy(x), torch.from_numpy(x))):
        assert add.warmup(arrays[0], arrays[0], arrays[1], 64, BLOCK=32, grid=(2,)).name == "add"


def name_of(types: Any) -> str:
    return f"kernel_{types.signature['x_ptr']}_{types.signature['n']}_{types.constants}"


@triton.jit(repr=name_of)
def named(x_ptr, n, one, half, BLOCK: tl.constexpr):
    pass


def test_a_compiled_program_has_the_name_that_its_types_give(gpu: Runtime) -> None:
    for n, kind in ((-1, "i32"), (2**31, "i64"), (2**63, "u64")):
        compiled = named.warmup(np.zeros(4, np.float32), n, 1, 0.5, BLOCK=8, grid=(1,))
        assert compiled.name == compiled.metadata.name == f"kernel_*fp32_{kind}_{{'one': 1, 'BLOCK': 8}}"


def test_strides_are_those_of_the_storage(torch: Any, launched: Any) -> None:
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    x, out = torch.from_numpy(host).transpose(0, 1), np.zeros((6, 4), np.float32)
    launched(doubled_rows)[(6,)](x, x.stride(0), x.stride(1), torch.from_numpy(out), 4, BLOCK=4)
    assert np.array_equal(out, 2 * host.T)


def test_tensors_of_one_storage_are_written_as_on_a_device(torch: Any, gpu: Runtime, monkeypatch: Any) -> None:
    monkeypatch.setattr("vkcompute.runtime.runtime._default", [gpu])
    host = np.arange(48, dtype=np.float32).reshape(3, 16)
    parts = torch.from_numpy(host)
    exchanged[(1,)](parts[0], parts[2], BLOCK=16)
    assert host[:, 0].tolist() == [32, 16, 0]


def test_arrays_of_wide_stores_are_copied_back(gpu: Runtime) -> None:
    """Whole blocks are stored by several words at once where the device has such stores."""
    host, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    add[(2,)](gpu.array(host), host, out, 64, BLOCK=32)
    assert np.array_equal(out, 2 * host)
    exchanged[(1,)](host, out, BLOCK=64)
    assert np.array_equal(host, 2 * out)


def test_brain_floats(torch: Any, launched: Any, gpu: Runtime) -> None:
    words = ((np.arange(32, dtype=np.float32) / 2).view(np.uint32) >> 16).astype(np.uint16)
    out = np.zeros(32, np.uint16)
    if torch.Tensor is _Tensor:
        tensors = [_Tensor(item, 0, (32,), (1,), "bfloat16") for item in (words, out)]
    else:
        tensors = [torch.from_numpy(item).view(torch.bfloat16) for item in (words, out)]
    launched(add)[(1,)](tensors[0], tensors[0], tensors[1], 32, BLOCK=32)
    assert np.array_equal((out.astype(np.uint32) << 16).view(np.float32), np.arange(32))


@triton.jit
def transposed(x, out):
    out.store([1, 0], x.load([0, 1]).T)


def test_descriptors_of_tensors(torch: Any, launched: Any) -> None:
    host, out = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((6, 8), np.float32)
    x = TensorDescriptor.from_tensor(torch.from_numpy(host).transpose(0, 1), [4, 2])
    assert (x.shape, x.strides) == ([6, 4], [1, 6])
    launched(transposed)[(1,)](x, TensorDescriptor.from_tensor(torch.from_numpy(out), [2, 4]))
    wanted = np.zeros_like(out)
    wanted[1:3, :4] = host[1:3, :4]
    np.testing.assert_array_equal(out, wanted)


def test_a_tensor_of_another_device_is_refused(torch: Any, gpu: Runtime) -> None:
    x = torch.from_numpy(np.zeros(4, np.float32))
    if torch.Tensor is _Tensor:
        x.device = SimpleNamespace(type="cuda")
    else:
        x = x.to("meta")
    with pytest.raises(TypeError, match=r"tensors of the host .* pass tensor\.cpu\(\)"):
        add[(1,)](x, x, x, 4, BLOCK=4)


@pytest.mark.parametrize("kind", ["array", "NumPy array", "tensor"])
def test_tuning_resets_and_restores(
    torch: Any, gpu: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))  # a launch resets where it measures
    monkeypatch.setattr("vkcompute.runtime.runtime._default", [gpu])
    configs = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

    @triton.autotune(configs=configs, key=[], reset_to_zero=["sum_ptr"], restore_value=["x_ptr"])
    @triton.jit
    def summed(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0)
        tl.store(x_ptr + at, x + 1, mask=at < n)
        tl.atomic_add(sum_ptr, tl.sum(x, axis=0))

    host, total = np.arange(50, dtype=np.int32), np.full(1, 7, np.int32)
    made = {"array": gpu.array, "NumPy array": np.asarray, "tensor": torch.from_numpy}[kind]
    x, out = made(host), made(total)
    summed[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](x, out, 50)
    result, sums = (np.asarray(each) if kind == "NumPy array" else each.numpy() for each in (x, out))
    assert np.array_equal(result, np.arange(1, 51))
    assert sums.tolist() == [49 * 25]


_LIBRARY = """
import triton
import triton.language as tl
import triton.language.extra.libdevice
from triton import language
from triton.language.core import CONSTEXPR_0, get_int_dtype
from triton.language.extra.cuda.libdevice import rsqrt
from triton.language.math import exp2
from triton.language.standard import _is_power_of_two, _log2
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
from triton.testing import do_bench

assert int(triton.__version__.partition(".")[0]) >= 3

@triton.jit
def inverse_roots(x_ptr, BLOCK: tl.constexpr):
    dtype: tl.constexpr = tl.core.get_int_dtype(bitwidth=32, signed=True)
    tl.static_assert(_is_power_of_two(BLOCK) and _log2(BLOCK) == 4 and get_int_dtype(32, True) == dtype)
    at = tl.arange(0, BLOCK).to(dtype) + CONSTEXPR_0
    tl.store(x_ptr + at, rsqrt(exp2(tl.load(x_ptr + at))))

assert isinstance(inverse_roots, JITFunction)
assert tl.core.constexpr is tl.constexpr
assert triton.runtime.autotuner.Autotuner is Autotuner
from triton.runtime import driver
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton.backends.compiler import GPUTarget
from triton.language.extra.libdevice import fast_dividef, fast_expf
properties = triton.runtime.driver.active.utils.get_device_properties(0)
assert properties["max_shared_mem"] >= 16384 and properties["multiprocessor_count"] >= 1
assert driver.active.get_current_target() == GPUTarget("cpu", driver.active.get_current_target().arch, 32)
triton.set_allocator(lambda size, alignment, stream: None)
"""


def test_libraries_import_this_package_as_triton(run_python: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "library_of_programs.py").write_text(_LIBRARY)
    program = f"""
        import sys, numpy as np
        sys.path.insert(0, {str(tmp_path)!r})
        import vkcompute.compat.triton
        vkcompute.compat.triton.install_as_triton()
        from library_of_programs import inverse_roots
        x = np.zeros(16, np.float32)
        inverse_roots[(1,)](x, BLOCK=16)
        print(x.tolist() == [1] * 16)
    """
    done = run_python(textwrap.dedent(program))
    assert done.stdout == "True\n", done.stderr


def test_no_module_of_triton_itself_remains(run_python: Callable[..., Any]) -> None:
    """PyTorch imports Triton, and so modules that this package does not have."""
    program = """
        import sys
        from types import ModuleType
        names = "triton", "triton.tools", "triton.tools.tensor_descriptor", "triton.tools.disasm", "triton.knobs"
        sys.modules.update({name: ModuleType(name) for name in names})
        import vkcompute.compat.triton
        for _ in range(2):
            vkcompute.compat.triton.install_as_triton()
            import triton
            import triton.tools.tensor_descriptor
            from triton.tools.tensor_descriptor import TensorDescriptor
            from vkcompute.compat.triton.tools import tensor_descriptor
            assert TensorDescriptor is triton.tools.tensor_descriptor.TensorDescriptor
            assert triton.tools.tensor_descriptor is tensor_descriptor
            for name in ("tools.disasm", "knobs"):
                try:
                    __import__("triton." + name)
                    print("imports", name)
                except ModuleNotFoundError:
                    pass
        print("done")
    """
    done = run_python(textwrap.dedent(program))
    assert done.stdout == "done\n", done.stderr
