"""The functions of `torch.vk`, and PyTorch's own that ask the device: profiles, checkpoints, memory, workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from hang_limit import hang_limit_s
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import vkcompute as vc

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
WORKERS = """
import torch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.full((3,), float(i))


weight = torch.ones(3, device="vk", requires_grad=True)
(weight * 2).sum().backward()  # the device is in use when the workers are forked
for stays in False, True:
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=8, num_workers=2, pin_memory=stays, persistent_workers=stays, multiprocessing_context="fork"
    )
    print(sum((x.to("vk") * weight).sum().item() for _ in range(2) for x in loader))
del loader
print("end")
"""


def _run(program: str, **environment: str) -> Any:
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=hang_limit_s(120), check=False
    )


def test_profiles_have_the_times_of_the_device(tmp_path: Path) -> None:
    x = torch.randn(64, 64, device="vk", requires_grad=True)
    with profile(activities=BOTH) as measured:
        (x @ x).relu().sum().backward()
        lazy = x.detach() + 1  # launched at the end, by no operator
    assert lazy.device.type == "vk"
    events = {event.key: event for event in measured.key_averages()}
    products = events["product"]
    assert products.count == 3  # the result, and two gradients
    assert products.self_device_time_total > 0
    assert events["aten::mm"].self_device_time_total >= products.self_device_time_total
    assert events["x0 + x1"].count >= 1
    path = tmp_path / "trace.json"
    measured.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())["traceEvents"]
    kernels = [event for event in trace if event.get("cat") == "kernel" and event["name"] == "product"]
    first = min(event["ts"] for event in trace if event.get("name") == "aten::mm")
    assert len(kernels) == 3
    assert all(-1000 < event["ts"] - first < 60e6 and event["dur"] > 0 for event in kernels)


def test_profiles_of_the_host_measure_no_device() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as measured:
        torch.ones(3, device="vk").sin().tolist()
    assert all(event.self_device_time_total == 0 for event in measured.key_averages())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).to("vk")
    results = []
    for is_checkpoint in True, False:
        torch.manual_seed(2)
        x = torch.ones(64, 4, device="vk", requires_grad=True)
        y = checkpoint(model, x, use_reentrant=reentrant) if is_checkpoint else model(x)
        y.square().sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu()))  # type: ignore[union-attr]
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_mixed_precision_by_the_devices_own_module() -> None:
    x = torch.ones(3, 3, device="vk")
    with torch.vk.amp.autocast():
        assert (x @ x).dtype == torch.float16
    with torch.vk.amp.autocast(dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    weight = torch.nn.Parameter(torch.ones(2, device="vk"))
    optimizer, scaler = torch.optim.SGD([weight], 0.1), torch.vk.amp.GradScaler()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (weight.tolist(), scaler.get_scale()) == ([1, 1], 32768)


def test_streams_and_events_end() -> None:
    stream = torch.vk.Stream()
    with torch.vk.stream(stream):
        x = torch.ones(3, device="vk") * 2
    event = stream.record_event()
    torch.vk.current_stream().wait_event(event)
    stream.synchronize()
    assert stream.query()
    assert event.query()
    x.record_stream(stream)
    assert x.tolist() == [2] * 3


def test_a_loader_that_shuffles_takes_a_generator_of_the_default_device() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10))
    torch.set_default_device("vk")
    try:
        with pytest.raises(RuntimeError, match="Expected a 'vk' device type for generator but found 'cpu'"):
            next(iter(torch.utils.data.DataLoader(data, 4, shuffle=True)))
        loader = torch.utils.data.DataLoader(data, 4, shuffle=True, generator=torch.Generator(device="vk"))
        orders = [torch.cat([batch for (batch,) in loader]).tolist() for _ in range(3)]
    finally:
        torch.set_default_device(None)
    assert [sorted(order) for order in orders] == [[*range(10)]] * 3
    assert len({*map(tuple, orders)}) > 1


def test_the_default_device_is_that_of_new_tensors_and_modules() -> None:
    torch.set_default_device("vk")
    try:
        made = [torch.ones(2), torch.tensor([1]), torch.randperm(4), torch.nn.Linear(2, 2).weight]
        with torch.device("cpu"):
            host = torch.ones(1)
    finally:
        torch.set_default_device(None)
    assert [x.device.type for x in made] == ["vk"] * 4
    assert host.device.type == torch.ones(1).device.type == "cpu"


def test_deterministic_algorithms_repeat_their_results() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.randn(50, 4, device="vk", requires_grad=True)
        at, values = torch.randint(0, 50, (500,), device="vk"), torch.randn(500, device="vk")
        gradients = []
        for _ in range(3):
            x.grad = None
            sums = torch.zeros(50, device="vk").index_add(0, at, values).scatter_add(0, at, values)
            sums = sums.index_put((at,), values, accumulate=True)
            loss = (x[at].sin() * torch.nn.functional.embedding(at, x)).sum() + (x.sum(1) * sums).sum()
            loss.backward()
            gradients.append(x.grad.cpu())
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


def test_free_and_total_memory() -> None:
    free, total = torch.vk.mem_get_info()
    kept = torch.ones(2**22, device="vk") + 1
    torch.vk.synchronize()
    assert 0 < torch.vk.mem_get_info()[0] <= total
    assert free <= total == torch.vk.get_device_properties(0).total_memory
    assert torch.accelerator.get_memory_info()[1] == total
    assert torch.vk.get_device_name() == torch.vk.get_device_properties().name
    assert kept.shape == (2**22,)


def test_training_goes_on_with_a_smaller_batch_after_full_memory() -> None:
    before = vc.default_runtime()
    with vc.Runtime(memory_limit_bytes=24 << 20, spill_limit_bytes=0) as gpu:
        vc.set_default_runtime(gpu)
        try:
            model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)).to("vk")
            optimizer = torch.optim.Adam(model.parameters(), 0.01)

            def step(n: int) -> float:
                x, y = torch.ones(n, 64, device="vk"), torch.zeros(n, dtype=torch.int64, device="vk")
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss.item()

            first = step(64)
            with pytest.raises(torch.OutOfMemoryError, match=r"asked for \d+ bytes, \d+ of \d+ are free"):
                step(16_000)
            assert step(1000) < first
            assert step(64) < first
        finally:
            vc.set_default_runtime(before)


def test_forked_workers_load_batches_and_end() -> None:
    done = _run(WORKERS)
    assert (done.returncode, done.stdout) == (0, "4680.0\n4680.0\nend\n"), done.stderr


def test_without_a_device_pytorch_works_as_before() -> None:
    program = (
        "import torch\n"
        "print(torch.ones(2).sum().item(), torch.vk.is_available(), torch.accelerator.is_available())\n"
        "try: torch.ones(2, device='vk')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    done = _run(program, VK_ICD_FILENAMES="/nowhere.json", VK_DRIVER_FILES="/nowhere.json")
    assert (done.returncode, done.stdout) == (0, "2.0 False False\nNoDevice\n"), done.stderr


def test_older_versions_are_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.torch import registration

    monkeypatch.setattr(registration, "version", lambda: (2, 9))
    with pytest.warns(UserWarning, match=r"needs PyTorch 2\.10 or later.*pip install -U torch"):
        registration.register()
