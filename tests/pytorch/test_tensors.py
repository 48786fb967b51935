"""Tensors of the device: copies, dtypes, modules, random numbers, operators on the host, and errors."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkcompute as vc
from vkcompute.torch import FallbackWarning

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


def test_conjugate_and_negative_views() -> None:
    host = torch.tensor([1 + 2j, 3 - 4j])
    x = host.to("vk")
    assert torch.equal(x.conj().cpu(), host.conj().resolve_conj())
    assert torch.equal((x.conj() + 1).cpu(), host.conj() + 1)
    assert torch.equal(x.conj().imag.cpu(), host.conj().imag)
    x.conj().copy_(host.to("vk"))
    assert torch.equal(x.cpu(), host.conj().resolve_conj())


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


def _into(function: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    """Returns a tensor without elements that a function has resized for its result."""
    return function(*args, out=args[0].new_empty(0))


ORDERED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "complex": torch.complex,
    "polar": torch.polar,
    "logical_and": torch.logical_and,
    "logical_not": lambda x, y: torch.logical_not(x),
    "dropout": lambda x, y: torch.nn.functional.dropout(x, 0.5),
    "bernoulli": lambda x, y: torch.bernoulli(x),
    "entropy": lambda x, y: torch.nn.functional.binary_cross_entropy(x, y, reduction="none"),
    "huber_loss": lambda x, y: torch.nn.functional.huber_loss(x, y, reduction="none"),
    "a sum": lambda x, y: _into(torch.add, x, y),
    "an exponential": lambda x, y: _into(torch.exp, x),
    "an activation": lambda x, y: _into(torch._C._nn.gelu, x),
    "a part of a matrix": lambda x, y: _into(torch.tril, x),
    "sums": lambda x, y: _into(torch.cumsum, x, 0),
    "indices": lambda x, y: torch.sort(x, 0, out=(x.new_empty(0), x.new_empty(0).long()))[1],
    "of nothing": lambda x, y: torch.add(x[:0], y[:0], out=x.new_empty(0, 3)[:, :0]),
}


@pytest.mark.parametrize("name", ORDERED)
def test_results_have_the_strides_of_the_cpu(name: str) -> None:
    x = torch.rand(4, 5)
    for a in x, x.t().contiguous().t(), x[:, ::2]:
        for b in x[:, : a.shape[1]], x[:, : a.shape[1]].t().contiguous().t():
            pairs = [[t if kind == "cpu" else torch.empty_strided(t.shape, t.stride(), device=kind).copy_(t)
                      for t in (a, b)] for kind in ("cpu", "vk")]  # fmt: skip
            host, device = (ORDERED[name](*pair) for pair in pairs)
            assert (device.shape, device.stride()) == (host.shape, host.stride())
            if name not in ("dropout", "bernoulli"):
                torch.testing.assert_close(device.cpu(), host)


DRAWS: dict[str, Callable[[torch.Generator], torch.Tensor]] = {
    "randn": lambda g: torch.randn(3, generator=g, device="vk"),
    "randperm": lambda g: torch.randperm(4, generator=g, device="vk"),
    "normal_": lambda g: torch.ones(3, device="vk").normal_(generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((9,), 0.5, device="vk"), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(9, device="vk"), 3, generator=g),
    "log_normal_": lambda g: torch.ones(3, device="vk").log_normal_(generator=g),
    "cauchy_": lambda g: torch.ones(3, device="vk").cauchy_(generator=g),
    "geometric_": lambda g: torch.ones(3, dtype=torch.int32, device="vk").geometric_(0.2, generator=g),
    "rrelu": lambda g: torch.ops.aten.rrelu(-torch.ones(3, device="vk"), 0.1, 0.2, True, g),
    "poisson": lambda g: torch.poisson(torch.ones(9, device="vk"), generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generators_of_the_host_are_refused(name: str) -> None:
    for generator in torch.Generator(), torch.default_generator:
        with pytest.raises(RuntimeError, match="Expected a 'vk' device type for generator but found 'cpu'"):
            DRAWS[name](generator)
    one, other = (DRAWS[name](torch.Generator("vk").manual_seed(seed)).tolist() for seed in (5, 5))
    assert one == other


@pytest.mark.parametrize("kind", ["vk", "cpu"])
def test_generators_are_copied(kind: str) -> None:
    original = torch.Generator(kind).manual_seed(5)
    torch.rand(3, generator=original, device=kind)
    copies = original.clone_state(), copy.deepcopy(original), pickle.loads(pickle.dumps(original))
    assert {(type(made), made.device.type) for made in copies} == {(torch.Generator, kind)}
    draws = [torch.rand(3, generator=made, device=kind).cpu() for made in (original, *copies)]
    assert all(torch.equal(draw, draws[0]) for draw in draws)


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


def test_modules_of_other_libraries_without_sizes_move_to_the_device() -> None:
    """They have such parameters, but are not PyTorch's lazy modules."""
    model = torch.nn.Module()
    model.weight = torch.nn.UninitializedParameter()
    model.register_buffer("mean", torch.nn.UninitializedBuffer())
    model.bias = torch.nn.Parameter(torch.ones(2))
    model = torch.nn.Sequential(model).to("vk").half()[0]
    assert list(model._parameters) == ["weight", "bias"]
    for tensor in model.weight, model.mean:
        assert torch.nn.parameter.is_lazy(tensor)
        tensor.materialize((2, 3))
        assert (tensor.device.type, tensor.dtype, tensor.shape) == ("vk", torch.float16, (2, 3))
    assert (type(model.weight), model.bias.device.type) == (torch.nn.Parameter, "vk")


def test_packaged_modules_are_loaded() -> None:
    from torch.package import PackageExporter, PackageImporter

    model, file = torch.nn.Linear(3, 2).to("vk"), io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.extern("**")
        exporter.save_pickle("models", "model.pkl", model)
    file.seek(0)
    loaded = PackageImporter(file).load_pickle("models", "model.pkl")
    assert (loaded.weight.device.type, loaded.weight.tolist()) == ("vk", model.weight.tolist())


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


@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_quotients_of_infinite_numbers(mode: str | None) -> None:
    x = torch.tensor([math.inf, -math.inf, 1.0, -1.0, 0.0, -0.0, math.nan, 5.5])
    for one, other in (x, x[:, None]), (x, 2.0), (x, -math.inf), (x, 0.0), (math.inf, x), (-3.0, x), (-0.0, x):
        device, host = (
            torch.div(torch.as_tensor(one).to(kind), torch.as_tensor(other).to(kind), rounding_mode=mode).cpu()
            for kind in ("vk", "cpu")
        )
        numbers = torch.div(*(y.to("vk") if isinstance(y, torch.Tensor) else torch.tensor(y) for y in (one, other)),
                            rounding_mode=mode).cpu()  # fmt: skip
        for result in device, numbers:
            torch.testing.assert_close(result, host, equal_nan=True)
            assert torch.equal(result.signbit() | result.isnan(), host.signbit() | host.isnan())


def test_elements_that_are_taken_are_copies() -> None:
    x = torch.arange(3.0, device="vk")
    torch.take(x, torch.tensor(1, device="vk")).add_(5)
    assert x.tolist() == [0, 1, 2]


def test_outer_products_of_bools_are_added_as_bools() -> None:
    x = torch.tensor([[True, False], [True, True]])
    for beta in -1, 0, 2:
        device, host = (torch.addr(y, y[:, 0], y[1], beta=beta) for y in (x.to("vk"), x))
        assert device.tolist() == host.tolist()


def test_outer_products_of_floats_are_added_to_integers() -> None:
    x, vector = torch.arange(6).view(2, 3), torch.arange(3.0)
    device, host = (torch.addr(y, v[:2], v, beta=2.5) for y, v in ((x.to("vk"), vector.to("vk")), (x, vector)))
    assert (device.dtype, device.tolist()) == (host.dtype, host.tolist())


def test_powers_of_integers_by_a_negative_number_of_the_host() -> None:
    x, exponent = torch.tensor([-2, -1, 1, 3]), torch.tensor(-3)
    assert (x.to("vk") ** exponent).tolist() == (x**exponent).tolist()


def test_quotients_of_numbers_by_integers() -> None:
    x = torch.tensor([-5, -3, -1, 1, 2, 7, 8])
    for mode in "floor", "trunc":
        for number in -7, 0, 8:
            result = torch.div(number, x.to("vk"), rounding_mode=mode)
            assert result.tolist() == torch.div(number, x, rounding_mode=mode).tolist()
