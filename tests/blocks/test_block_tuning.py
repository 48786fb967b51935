"""Measured and computed constants, and `triton.testing`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.blocks.launching import measuring


def test_the_fastest_configuration_is_measured_once_per_key(gpu: vkcompute.Runtime) -> None:
    seen: list[int] = []
    configs = [
        triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=lambda given: seen.append(given["BLOCK"]))
        for block, warps in ((32, 1), (64, 1))
    ]

    @triton.autotune(configs=configs, key=["n"], reset_to_zero=["out_ptr"])
    @triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
    @triton.jit
    def accumulate(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at) if EVEN else tl.load(x_ptr + at, at < n, other=0)
        tl.atomic_add(out_ptr, tl.sum(x, 0))

    x, out = gpu.array(np.arange(96, dtype=np.int32)), gpu.zeros(1, np.int32)
    out.fill(0)
    accumulate[lambda meta: (triton.cdiv(96, meta["BLOCK"]),)](x, out, 96)
    measured = len(seen)
    assert set(seen) == {32, 64}
    assert out.numpy()[0] == 96 * 95 // 2  # it is zeroed after the measurements, too
    out.fill(0)
    accumulate[lambda meta: (triton.cdiv(96, meta["BLOCK"]),)](x, out, 96)
    assert out.numpy()[0] == 96 * 95 // 2
    assert len(seen) == measured + 1
    assert accumulate.best_config in configs
    accumulate.fn[(2,)](x, out.fill(0), 96, BLOCK=64)  # as its heuristics and constants say, without a measurement
    accumulate.fn.fn[(3,)](x, out, 96, BLOCK=32, EVEN=True)
    assert out.numpy()[0] == 2 * (96 * 95 // 2)
    assert len(seen) == measured + 1
    host = np.zeros(1, np.int32)
    accumulate.fn.fn.interpret[(3,)](x.numpy(), host, 96, BLOCK=32, EVEN=True)
    assert host[0] == 96 * 95 // 2


@triton.jit
def takes_stages(x_ptr, num_stages: tl.constexpr):
    tl.store(x_ptr, num_stages)


@pytest.mark.parametrize(("program", "n_measured"), [("scaled", 2), ("takes_stages", 6)])
def test_configurations_of_one_program_are_measured_once(
    gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: Any, program: str, n_measured: int
) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    kwargs, given = ({"BLOCK": 32}, (64, 2)) if program == "scaled" else ({}, ())
    options = [(warps, stages) for stages in (2, 3, 4) for warps in (1, 2)]
    configs = [triton.Config(kwargs, num_warps=warps, num_stages=stages) for warps, stages in options]
    tuned = triton.autotune(configs=configs, key=[])(globals()[program])
    times = iter([[3.0], [2.0], [4.0], [5.0], [1.0], [6.0]])
    tuned.do_bench = lambda launch, quantiles: launch() and next(times)
    x = gpu.array(np.ones(64, np.int32))
    tuned[(1,)](x, *given)
    assert len({*tuned.configs_timings.values()}) == n_measured
    assert len(tuned.configs_timings) == 6
    assert tuned.best_config is configs[1 if n_measured == 2 else 4]


@triton.jit
def scaled(x_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < n) * factor, at < n)


def tuned(measured: list[str], **options: Any) -> Any:
    """A tuned program that notes each measured configuration, the last of which is the fastest."""

    def bench(launch: Any, quantiles: Any) -> list[float]:
        launch()
        launch()
        measured.append("")
        return [1 / len(measured)]

    configs = [triton.Config({"BLOCK": block}, num_warps=1) for block in (16, 32, 64)]
    program = triton.jit(scaled.fn)  # each with an environment of its own
    return triton.autotune(configs=configs, key=["n"], do_bench=bench, **options)(program)


def launch(program: Any, x: Any, n: int, **named: Any) -> None:
    program[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, 2.0, **named)


def test_choices_are_kept_on_disk_by_size(gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    x = gpu.array(np.ones(200, np.float32))
    measured: list[str] = []
    program = tuned(measured, restore_value=["x_ptr"])
    launch(program, x, 100)
    assert len(measured) == 3
    np.testing.assert_array_equal(x.numpy(), np.where(np.arange(200) < 100, 2, 1))  # one launch has an effect
    launch(program, x, 120)  # as many bits, and no multiple of 16, too
    assert len(measured) == 3
    launch(program, x, 64)
    assert len(measured) == 6
    again: list[str] = []
    other = tuned(again)
    launch(other, x, 90)
    assert again == []
    assert other.best_config.kwargs == {"BLOCK": 64}
    (file, *_) = (tmp_path / "vkcompute" / "tuning").iterdir()
    file.write_bytes(b"damaged")
    launch(tuned(again), x, 100)
    launch(tuned(again), x, 64)
    assert len(again) == 3


def test_choices_for_numpy_arrays_are_kept_on_disk(gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("vkcompute.runtime.runtime.current_runtime", lambda: gpu)
    monkeypatch.setattr("vkcompute.compiled.launches.current_runtime", lambda: gpu)
    x, measured = np.ones(64, np.float32), list[str]()
    for _ in range(2):
        with pytest.warns(vkcompute.HostCopyWarning):
            launch(tuned(measured, restore_value=["x_ptr"]), x, 64)
    assert len(measured) == 3
    np.testing.assert_array_equal(x, 4)


def test_choices_for_reinterpreted_arrays_are_those_of_their_device(
    gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("vkcompute.runtime.runtime.current_runtime", pytest.fail)
    words, measured = gpu.array(np.full(64, 0x3F80, np.uint16)), list[str]()
    launch(tuned(measured, restore_value=["x_ptr"]), triton.reinterpret(words, tl.bfloat16), 64)
    assert len(measured) == 3
    np.testing.assert_array_equal(words.numpy(), 0x4000)


def test_hooks_and_models(gpu: vkcompute.Runtime, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    x, calls, measured = gpu.array(np.ones(64, np.float32)), list[Any](), list[str]()

    def early(configs: list[triton.Config], positional: dict[str, Any], **named: Any) -> list[triton.Config]:
        assert positional.keys() == {"x_ptr", "n", "factor"}
        return configs[1:]

    def model(n: int, BLOCK: int, num_warps: int, **_: Any) -> float:
        return -BLOCK

    program = tuned(measured, prune_configs_by={"early_config_prune": early, "perf_model": model, "top_k": 1})
    launch(program, x, 64)
    assert (measured, program.best_config.kwargs) == ([], {"BLOCK": 64})
    program = tuned(
        measured,
        pre_hook=lambda given, reset_only: calls.append(("before", reset_only)),
        post_hook=lambda given, exception: calls.append(("after", exception)),
    )
    launch(program, x, 33)
    assert calls == [("before", False), ("after", None)] * 6 + [("before", True)]
    with pytest.raises(ValueError, match="scaled is tuned over BLOCK, which the launch gives, too"):
        launch(program, x, 33, BLOCK=16)
    with pytest.raises(ValueError, match="at least one configuration"):
        launch(tuned([], prune_configs_by={"early_config_prune": lambda *_, **__: []}), x, 33)
    with pytest.raises(ValueError, match="prune_configs_by has early_config_prune"):
        tuned([], prune_configs_by={"late": None})
    with pytest.raises(ValueError, match="top_k is a number"):
        launch(tuned([], prune_configs_by={"perf_model": model, "top_k": 1.5}), x, 33)


@pytest.mark.pure
def test_interpreted_launches_are_not_measured(monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    x, measured = np.ones(64, np.float32), list[str]()
    launch(tuned(measured), x, 64)
    np.testing.assert_array_equal(x, 2)
    assert measured == []


@pytest.mark.pure
def test_an_unknown_array_to_restore_is_an_error() -> None:
    @triton.jit
    def program(x_ptr):
        tl.store(x_ptr, 0)

    with pytest.raises(ValueError, match="program has no parameter M; it has x_ptr"):
        triton.autotune(configs=[], key=[], restore_value=["M"])(program)


@pytest.mark.pure
def test_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = triton.testing.Benchmark(["n"], [1, 2, 4], "by", ["one", "two"], ["One", "Two"], "times", {"k": 10})

    @triton.testing.perf_report(bench)
    def measure(n: int, by: str, k: int) -> Any:
        return n * k if by == "one" else (2 * n * k, 0, 0)

    assert measure.run(print_data=True) == [[(1, 10, 20), (2, 20, 40), (4, 40, 80)]]
    assert "n,One,Two\n1,10,20\n" in capsys.readouterr().out
    pair = triton.testing.Benchmark(["m", "n"], [(1, 2), 3], "by", ["one"], ["One"], "pairs", {})
    report = triton.testing.perf_report([pair])(lambda m, n, by, k=0: m * n + k)
    assert report.run(k=5) == [[(1, 2, 7), (3, 3, 14)]]
    pytest.importorskip("matplotlib").use("agg")
    measure.run(save_path=str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"times.png", "times.csv"}


@pytest.mark.pure
@pytest.mark.parametrize("x_log", [False, True])
def test_plots_of_texts_have_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, x_log: bool) -> None:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib.figure import Figure

    ticks: list[dict[str, float]] = []

    def record(figure: Figure, path: Path) -> None:
        figure.draw_without_rendering()
        ticks.append({label.get_text(): label.get_position()[0] for label in figure.axes[0].get_xticklabels()})

    monkeypatch.setattr(Figure, "savefig", record)
    bench = triton.testing.Benchmark(["dtype"], ["f32", "f16"], "by", [1, 2], ["One", "Two"], "t", {}, x_log=x_log)
    triton.testing.perf_report(bench)(lambda dtype, by: (by, 0, 3)).run(save_path=str(tmp_path))
    assert ticks == [{"f32": 0, "f16": 1}]


@pytest.mark.pure
def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install torch; without it, make arrays by vc.default_runtime\(\)"):
        triton.runtime.driver.active.get_active_torch_device()
    bench = triton.testing.Benchmark(["n"], [1], "by", [1], ["One"], "times", {})
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'vkcompute\[plot\]'"):
        triton.testing.perf_report(bench)(lambda n, by: by).run(show_plots=True)


@pytest.mark.pure
def test_measurements() -> None:
    calls: list[int] = []
    times = triton.testing.do_bench(lambda: calls.append(0), warmup=0.01, rep=0.01, return_mode="all")
    assert len(times) >= 1
    assert len(calls) > len(times)
    low, high = triton.testing.do_bench(lambda: None, warmup=0.01, rep=0.01, quantiles=[0.2, 0.8])
    assert 0 <= low <= high
    gradient = SimpleNamespace(grad=1)
    triton.testing.do_bench(lambda: None, warmup=0, rep=0, grad_to_none=[gradient])
    assert gradient.grad is None
    with pytest.raises(ValueError, match="quantiles are numbers from 0 to 1"):
        triton.testing.do_bench(lambda: None, quantiles=[20])
    with pytest.raises(ValueError, match="return_mode"):
        triton.testing.do_bench(lambda: None, return_mode="average")


@pytest.mark.pure
def test_the_time_of_a_call_is_that_of_its_tasks() -> None:
    spans = [(0, 100), (100, 200), (200, 300)]
    tasks = [(10, 20, 50), (30, 40, 70), (120, 500, 510), (99, 60, 75), (310, 600, 700)]
    assert measuring._busy(spans, tasks) == [55, 10, 0]  # tasks overlap, and may run after the call


def test_a_measurement_leaves_out_the_host(gpu: vkcompute.Runtime) -> None:
    families = gpu.device.physical.queue_families
    if not all(families[queue.family].timestamp_bits for queue in gpu.device.queues):
        pytest.skip("the device has no timestamps")
    x = gpu.array(np.ones(64, np.float32))

    spans: list[float] = []

    def late() -> Any:
        start = time.perf_counter()
        time.sleep(0.1)  # no work of the device
        future = scaled[(1,)](x, 64, 2.0, BLOCK=64)
        future.result()
        spans.append((time.perf_counter() - start) * 1e3)
        return future

    times = triton.testing.do_bench(late, warmup=0, rep=1, return_mode="all")
    assert len(times) == 1
    assert 0 < times[0] <= spans[-1] - 100
    assert triton.testing.do_bench(lambda: time.sleep(0.01), warmup=0, rep=1) >= 10
    with gpu.profile() as profile:  # the user's own: only the host's clock is left
        assert triton.testing.do_bench(late, warmup=0, rep=1) >= 100
    assert len(profile.tasks) == 3


def test_a_measurement_as_of_graphs() -> None:
    assert triton.testing.do_bench_cudagraph(lambda: None, rep=0.01, return_mode="min") >= 0


NO_DRIVER = """
import sys
import numpy as np
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

@triton.jit
def program(x_ptr):
    tl.store(x_ptr + tl.arange(0, 4), tl.arange(0, 4))

x = np.zeros(4, np.int32)
program[(1,)](x)
print(x, [name for name in sys.modules if name == "vulkan"])
"""


@pytest.mark.pure
def test_the_interpreter_loads_no_driver(run_python: Any, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(NO_DRIVER)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = run_python(f"import runpy; runpy.run_path({str(file)!r})", env=env)
    assert done.stdout == "[0 1 2 3] []\n", done.stderr
