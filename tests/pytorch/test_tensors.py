"""Tensors of the device: copies, views, storages, updates in place, saving, and errors."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
import torch

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.torch import FallbackWarning, array_of, from_array

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", [torch.float32, None], ids=["to float32", "kept"])
def test_copies_keep_strides_and_convert(dtype: torch.dtype, target: torch.dtype | None) -> None:
    host = (torch.arange(24).reshape(2, 3, 4) % 5).to(dtype).permute(2, 0, 1)
    device = host.to("vk")
    assert (device.stride(), device.device.type) == (host.stride(), "vk")
    result, expected = (tensor[::2, :, 1:].to(target or dtype) for tensor in (device, host))
    assert torch.equal(result.cpu().float(), expected.float())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_tensors_without_axes_and_without_elements(shape: tuple[int, ...]) -> None:
    host = torch.ones(shape)
    result = ((host.to("vk") + 1) * 2).sum(tuple(range(len(shape))))
    assert torch.equal(result.cpu(), ((host + 1) * 2).sum(tuple(range(len(shape)))))


def test_views_write_to_one_storage() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x[1:3].t()[::2].fill_(1)
        x.view(-1)[:3].add_(5)
        x.as_strided((2, 2), (6, 1), 14).mul_(3).sub_(1)
        x[:, 1] = x[:, 0]
        x[1:] += x[:-1].clone()
        return x

    assert torch.equal(program(torch.zeros(4, 6, device="vk")).cpu(), program(torch.zeros(4, 6)))


def test_a_lazy_result_is_not_changed_by_a_later_update_of_its_operand() -> None:
    x = torch.ones(5, device="vk")
    y, view = x * 2, x[1:]
    view.add_(1)
    x.zero_()
    assert y.cpu().tolist() == [2] * 5
    assert view.cpu().tolist() == [0] * 4


def test_a_clone_has_memory_of_its_own() -> None:
    x = torch.ones(3, device="vk")
    y = x.clone()
    y[0] = 7
    x[1] = 5
    assert (x.tolist(), y.tolist()) == ([1, 5, 1], [7, 1, 1])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.roll(0, 0), lambda x: x + 0, lambda x: x.sum(0), lambda x: x.clone(), lambda x: x.amax(0),
        lambda x: x.flip(0), lambda x: torch.cat([x]), lambda x: x.pow(1), lambda x: +x * 1,
        lambda x: x.to(torch.float32, copy=True), lambda x: x.clamp(-9), lambda x: x.cumsum(0), lambda x: x.round(),
    ],
)  # fmt: skip
def test_results_share_no_memory_with_operands(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.ones(1, 3, device="vk")
    y = function(x)
    before = y.tolist()
    x[0, 1] = 7
    assert y.tolist() == before
    y.view(-1)[0] = 5
    assert x.tolist() == [[1, 7, 1]]


def test_out_is_resized_and_may_be_strided() -> None:
    x = torch.arange(6.0, device="vk").view(2, 3)
    out = torch.empty(0, device="vk")
    torch.add(x, 1, out=out)
    strided = torch.zeros(3, 2, device="vk").t()
    torch.mul(x, 2, out=strided)
    assert torch.equal(out.cpu(), x.cpu() + 1)
    assert (torch.equal(strided.cpu(), x.cpu() * 2), strided.stride()) == (True, (1, 2))


def test_sequences_are_written_to_a_part_of_another_tensor() -> None:
    for write in (
        lambda out: torch.linspace(0, 3, 4, out=out),
        lambda out: torch.arange(0, 4, out=out),
        lambda out: torch.logspace(0, 3, 4, 2.0, out=out),
    ):
        host, device = torch.full((2, 3), 9.0), torch.full((2, 3), 9.0, device="vk")
        write(host[:, 1:])
        write(device[:, 1:])
        torch.testing.assert_close(device.cpu(), host)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool, torch.float64, torch.complex64], ids=str)
def test_a_number_is_copied_to_all_elements(dtype: torch.dtype) -> None:
    for number in 2.7, 300, -1, True, float("inf") if dtype.is_floating_point else 0:
        host, device = torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype, device="vk")
        assert device.copy_(number).tolist() == host.copy_(number).tolist()
        assert device.conj().copy_(number).tolist() == host.conj().copy_(number).tolist()


def test_runs_of_no_elements_have_indices_of_their_shape() -> None:
    for device in "cpu", "vk":
        values, inverse = torch.zeros(0, 0, 3, device=device).unique_consecutive(return_inverse=True)
        assert (values.shape, inverse.shape) == ((0,), (0, 0, 3))


def test_random_integers_have_the_range_of_their_dtype() -> None:
    for dtype in torch.int8, torch.uint8, torch.int64, torch.bool, torch.float16:
        x = torch.zeros(300, dtype=dtype, device="vk").random_(1, None)
        assert x.min() >= 1
        assert x.random_().min() >= 0


def test_channels_last_images_keep_their_order() -> None:
    host = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    result = host.to("vk").relu() * 2
    assert result.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(result.cpu(), host.relu() * 2)


def test_set_and_resize() -> None:
    x = torch.arange(6.0, device="vk")
    y = torch.empty(0, device="vk").set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    x.resize_(3)
    assert x.tolist() == [0, 1, 2]
    x.resize_(8)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.ones(3, device="vk").as_strided((4,), (1,))


def test_conjugate_and_negative_views() -> None:
    host = torch.tensor([1 + 2j, 3 - 4j])
    x = host.to("vk")
    assert torch.equal(x.conj().cpu(), host.conj().resolve_conj())
    assert torch.equal((x.conj() + 1).cpu(), host.conj() + 1)
    assert torch.equal(x.conj().imag.cpu(), host.conj().imag)
    x.conj().copy_(host.to("vk"))
    assert torch.equal(x.cpu(), host.conj().resolve_conj())


def test_tensors_are_saved_copied_and_pickled() -> None:
    model = torch.nn.Linear(3, 2).to("vk")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location in ("cpu", "vk", None):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["weight"].device.type == (location or "vk")
        assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())
    x = torch.arange(6.0, device="vk")
    part = pickle.loads(pickle.dumps(x[2:5]))
    assert (part.tolist(), part.device.type) == ([2, 3, 4], "vk")
    assert copy.deepcopy(model).bias.tolist() == model.bias.tolist()


def test_storages_that_were_resized_are_saved_as_far_as_they_are_visible() -> None:
    for device in "cpu", "vk":
        x, file = torch.arange(10.0, device=device), io.BytesIO()
        x.untyped_storage().resize_(20)
        part = torch.empty(0, device=device).set_(x.untyped_storage(), 0, (5,), (1,))
        assert part.untyped_storage().clone().nbytes() == 20
        torch.save(part, file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded.tolist() == [0, 1, 2, 3, 4]
        assert loaded.untyped_storage().nbytes() == 20


def test_modules_keep_their_parameters_and_ties() -> None:
    one, other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    other.weight = one.weight
    weight = one.weight
    both = torch.nn.Sequential(one, other).to("vk")
    assert one.weight is other.weight is weight
    assert weight.device.type == "vk"
    both.half()
    assert one.weight is other.weight is weight
    both.cpu()
    assert one.weight is other.weight is weight
    assert (weight.dtype, weight.device.type) == (torch.float16, "cpu")


def test_parameters_with_weak_references_are_loaded_and_converted() -> None:
    model, other = torch.nn.LSTM(2, 3), torch.nn.LSTM(2, 3)  # a layer refers to its parameters
    other.load_state_dict(model.state_dict())
    other.to("vk").load_state_dict(model.state_dict())
    model.load_state_dict({name: value + 1 for name, value in other.state_dict().items()})
    assert torch.equal(model.bias_hh_l0, other.bias_hh_l0.cpu() + 1)
    layer = torch.nn.Linear(2, 2)
    known = weakref.ref(layer.weight)
    assert layer.half().weight is known()


def test_arrays_and_tensors_share_memory() -> None:
    array = vc.default_runtime().array(np.arange(4, dtype=np.float32))
    x = from_array(array)
    x.add_(1)
    assert array.numpy().tolist() == [1, 2, 3, 4]
    array[0] = 9
    assert x.tolist() == [9, 2, 3, 4]
    y = torch.ones(3, device="vk")
    seen = array_of(y)
    y.mul_(5)
    assert seen.numpy().tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="array_of takes"):
        array_of(torch.ones(2))


@triton.jit
def doubled_bytes(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, (tl.load(x_ptr + at).to(tl.float32) * 2).to(tl.float8e5))


def test_block_programs_take_floats_of_8_bits() -> None:
    x = torch.linspace(-3, 3, 16).to(torch.float8_e4m3fn)
    out = torch.zeros(16, dtype=torch.float8_e5m2, device="vk")
    doubled_bytes[(1,)](x.to("vk"), out, 16)
    assert torch.equal(out.cpu().float(), (x.float() * 2).to(torch.float8_e5m2).float())


def test_errors_name_devices_and_dtypes() -> None:
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(2, device="vk") + torch.ones(2)
    assert (torch.ones(2, device="vk") + torch.tensor(2.0)).tolist() == [3, 3]
    with pytest.raises(NotImplementedError, match="complex32"):
        torch.empty(2, dtype=torch.complex32, device="vk")
    with pytest.raises(NotImplementedError, match="complex32"):
        torch.ones(2, dtype=torch.complex64, device="vk").chalf()
    with pytest.raises(NotImplementedError, match=r"_fft_r2c.*VKCOMPUTE_TORCH_FALLBACK"):
        torch.fft.rfft(torch.ones(4, device="vk"))


def test_full_memory_is_pytorchs_error_and_work_goes_on() -> None:
    before = vc.default_runtime()
    with vc.Runtime(memory_limit_bytes=32 << 20, spill_limit_bytes=0) as gpu:
        vc.set_default_runtime(gpu)
        try:
            with pytest.raises(torch.OutOfMemoryError, match="bytes"):
                torch.ones(2**24, device="vk")
            assert (torch.ones(4, device="vk") + 1).tolist() == [2] * 4
        finally:
            vc.set_default_runtime(before)


def test_an_operator_on_the_host_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "warn")
    x = torch.eye(3, device="vk") * 2
    with pytest.warns(FallbackWarning, match="linalg_inv_ex") as said:
        first, second = torch.linalg.inv(x), torch.linalg.inv(x)
    assert (len(said), first.device.type) == (1, "vk")
    assert torch.equal(second.cpu(), torch.eye(3) / 2)
    assert torch.vk.fallbacks() == {"aten.linalg_inv_ex.inverse": 2}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_dtypes_without_kernels_are_computed_on_the_host(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    host = torch.arange(1, 7).view(2, 3).to(dtype)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.clone()
        y[:, 1:].add_(2.5).mul_(x[:, :2])
        z = torch.zeros(4, 3, dtype=dtype, device=x.device)
        z.index_add_(0, torch.tensor([1, 1], device=x.device), x)
        return [y, z, x @ y.t(), x.sigmoid(), x.sum(1), torch.cat([x, y]), x[0].float().sum(dtype=dtype)]

    for result, expected in zip(program(host.to("vk")), program(host), strict=True):
        torch.testing.assert_close(result.cpu(), expected)
    if dtype == torch.bfloat16:
        assert torch.rand(100, dtype=dtype, device="vk").float().mean().item() == pytest.approx(0.5, abs=0.2)
        assert torch.full((2,), 1.5, dtype=dtype, device="vk").tolist() == [1.5] * 2


def test_a_host_operator_writes_back_to_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    x = torch.zeros(2, 3, device="vk")
    x[1].index_fill_(0, torch.tensor([0, 2], device="vk"), 4)
    out = torch.empty(0, device="vk")
    torch.linalg.inv(torch.eye(2, device="vk"), out=out)
    assert (x.tolist(), out.tolist()) == ([[0, 0, 0], [4, 0, 4]], [[1, 0], [0, 1]])


def test_a_seed_gives_the_same_numbers() -> None:
    def numbers() -> list[float]:
        torch.manual_seed(3)
        x = torch.randn(3, device="vk")
        return [*x.tolist(), *torch.rand(2, device="vk").tolist(), *torch.randperm(5, device="vk").tolist()]

    assert numbers() == numbers()
    state = torch.vk.get_rng_state()
    first = torch.randn(3, device="vk")
    torch.vk.set_rng_state(state)
    assert torch.equal(torch.randn(3, device="vk").cpu(), first.cpu())
    one, other = (torch.rand(3, generator=torch.Generator("vk").manual_seed(5), device="vk") for _ in range(2))
    assert torch.equal(one.cpu(), other.cpu())


def test_the_host_cannot_read_an_address() -> None:
    program = (
        "import ctypes, torch, vkcompute.torch\n"
        "x = torch.ones(4, device='vk')\n"
        "assert x.sum().item() == 4\n"
        "print('computed', flush=True)\n"
        "ctypes.c_float.from_address(x.data_ptr()).value\n"
        "print('read')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode < 0) == ("computed\n", True)


def test_importing_pytorchs_device_loads_no_driver() -> None:
    program = (
        "import sys, torch, vkcompute.torch\n"
        "assert not {'vulkan', 'vkcompute.core', 'vkcompute.arrays'} & set(sys.modules)\n"
        "assert torch.device('vk').type == 'vk' and torch.vk.device_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    no_torch = "import sys, vkcompute; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", no_torch], check=True)


def test_the_device_is_switched_off_and_on_and_first_used_by_several_threads() -> None:
    program = (
        "import threading, torch, vkcompute.torch\n"
        "from vkcompute.torch import registration\n"
        "results = []\n"
        "def run(n): results.append((torch.ones(3, device='vk') * n).sum().item())\n"
        "threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "assert (sorted(results), torch.vk.fallbacks()) == ([0, 3, 6, 9], {})\n"
        "registration.unregister()\n"
        "try: torch.ones(3, device='vk')\n"
        "except NotImplementedError: pass\n"
        "else: raise AssertionError\n"
        "assert torch.Generator is torch._C.Generator\n"
        "registration.register()\n"
        "assert (torch.ones(2, device='vk') + 1).tolist() == [2, 2]\n"
    )
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], check=True)


def test_copies_to_the_host_may_ask_not_to_block() -> None:
    assert torch.ones(3, device="vk").to("cpu", non_blocking=True).tolist() == [1, 1, 1]


def test_modules_without_sizes_move_to_the_device() -> None:
    model = torch.nn.LazyLinear(2).to("vk")
    assert model(torch.ones(3, 4, device="vk")).shape == (3, 2)
    assert type(model.weight) is torch.nn.Parameter


def test_events_have_the_times_of_the_device() -> None:
    start, end = (torch.vk.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    torch.randn(64, 64, device="vk").sin()
    end.record()
    assert 0 <= start.elapsed_time(end) < 60_000
    assert end.query()
    assert isinstance(torch.Event("vk").record().query(), bool)


def test_figures_of_memory() -> None:
    kept = torch.zeros(2**20, device="vk") + 1
    torch.vk.synchronize()
    torch.vk.reset_peak_memory_stats()
    stats = torch.vk.memory_stats()
    assert torch.vk.max_memory_allocated() >= torch.vk.memory_allocated() >= kept.nbytes
    assert stats["allocated_bytes.all.current"] >= kept.nbytes
    assert torch.accelerator.memory_allocated() >= kept.nbytes
    assert "in use" in torch.vk.memory_summary()
    torch.accelerator.empty_cache()


def test_states_of_random_numbers_are_restored() -> None:
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type="vk"):
        inside = torch.rand(3, device="vk")
    assert torch.equal(torch.rand(3, device="vk"), inside)


def _fail(*_: Any) -> Any:
    raise LookupError("no gradient")


def test_exceptions_in_hooks_of_backward_are_raised() -> None:
    def hooked(kind: str) -> None:
        x = torch.ones(3, device="vk", requires_grad=True)
        y = x * 2
        if kind == "tensor":
            y.register_hook(_fail)
        elif kind == "accumulated":
            x.register_post_accumulate_grad_hook(_fail)
        elif kind == "before":
            cast(Any, y.grad_fn).register_prehook(_fail)
        else:
            cast(Any, y.grad_fn).register_hook(_fail)
        y.sum().backward()

    for kind in ("tensor", "accumulated", "before", "after"):
        with pytest.raises(LookupError, match="no gradient"):
            hooked(kind)


def test_exceptions_in_hooks_are_raised_in_the_thread_that_called_backward() -> None:
    def failing(number: int) -> list[str]:
        raised = []
        for n in range(10):

            def fail(_: Any, name: str = f"{number} {n}") -> Any:
                raise LookupError(name)

            x = torch.ones(3, device="vk", requires_grad=True)
            y = x * 2
            y.register_hook(fail)
            try:
                y.sum().backward()
            except Exception as error:
                raised.append(str(error))
        return raised

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(failing, range(2)))
    assert results == [[f"{number} {n}" for n in range(10)] for number in range(2)]


def test_a_hook_may_catch_the_exception_of_a_hook_of_its_own_backward() -> None:
    def inner(gradient: Any) -> Any:
        z = gradient.detach().requires_grad_()
        with torch.enable_grad():
            w = z * 2
            w.register_hook(_fail)
            with pytest.raises(LookupError, match="no gradient"):
                w.sum().backward()
        raise IndexError("outer")

    for _ in range(3):  # PyTorch 2.10 took references that it did not own
        x = torch.ones(3, device="vk", requires_grad=True)
        y = x * 2
        y.register_hook(inner)
        with pytest.raises(IndexError, match="outer"):
            y.sum().backward()


def test_training_goes_on_after_an_exception_in_a_hook() -> None:
    x = torch.ones(3, device="vk", requires_grad=True)
    x.square().sum().backward()
    assert cast(Any, x.grad).tolist() == [2.0, 2.0, 2.0]


def test_kernels_and_functions_of_other_interfaces_take_tensors() -> None:
    import vkcompute.compat.cupy as cp
    import vkcompute.compat.cupyx as cupyx
    import vkcompute.numpy as vnp
    from vkcompute.compat.numba import cuda

    @vc.kernel
    def add_one(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[vc.global_id(0)] += 1

    @cuda.jit
    def add_two(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[cuda.grid(1)] += 2

    @cupyx.jit.rawkernel()
    def add_three(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[cupyx.jit.grid(1)] += 3

    x = torch.arange(6.0, device="vk").reshape(2, 3)
    view = x[1]
    add_one[1, 3](view)
    add_two[1, 3](view)
    cp.asarray(view)[0] *= 10
    x += 1
    assert x.tolist() == [[1, 2, 3], [61, 8, 9]]
    assert vnp.sum(x).item() == 84
    assert cp.ElementwiseKernel("T x", "T y", "y = 10 * x", "scaled")(cp.asarray(view)).tolist() == [610, 80, 90]
    add_three[1, 3](cp.asarray(view))
    assert cuda.as_cuda_array(view).copy_to_host().tolist() == view.tolist() == [64, 11, 12]
    assert cuda.to_device(x).copy_to_host().tolist() == x.tolist()
    assert vnp.asarray(torch.ones(2)).tolist() == [1, 1]


class Window:
    """The elements of a tensor from an offset on, as FlagGems passes them to programs."""

    def __init__(self, base: torch.Tensor, offset: int) -> None:
        self.base, self.offset, self.dtype, self.device = base, offset, base.dtype, base.device

    def data_ptr(self) -> int:
        return self.base.data_ptr() + self.offset * self.dtype.itemsize

    def untyped_storage(self) -> Any:
        return self.base.untyped_storage()


@triton.jit
def doubled(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)


def test_block_programs_take_addresses_of_the_device() -> None:
    x, out = torch.arange(32, dtype=torch.float16, device="vk"), torch.zeros(32, dtype=torch.float16, device="vk")
    for offset in (3, 7):  # the second launch has a plan
        doubled[(1,)](Window(x[1:], offset), Window(out, offset), N=4)
    wanted = torch.zeros(32)
    wanted[3:7], wanted[7:11] = torch.arange(4, 8) * 2, torch.arange(8, 12) * 2
    assert torch.equal(out.cpu().float(), wanted)


@triton.jit
def reversed_copy(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr - at))


def test_block_programs_go_back_from_addresses_of_the_device() -> None:
    x = torch.arange(32, dtype=torch.float16, device="vk")
    for last in (31, 5, 8):
        out = torch.zeros(32, dtype=torch.float16, device="vk")
        reversed_copy[(1,)](Window(x, last), Window(out, 16), N=4)
        assert out.tolist() == [0] * 16 + [last, last - 1, last - 2, last - 3] + [0] * 12


def test_wrappers_take_the_data_of_another_tensor() -> None:
    wrapped = triton.reinterpret(torch.arange(8, dtype=torch.int16).reshape(2, 4), tl.uint16)
    wrapped.data = wrapped.data[:, 1:]
    assert (tuple(wrapped.shape), wrapped.stride(), wrapped.base.tolist()) == ((2, 3), (4, 1), [[1, 2, 3], [5, 6, 7]])
