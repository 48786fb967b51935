"""Measured and computed constants, and `triton.testing`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


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
    out.fill(0)
    accumulate[lambda meta: (triton.cdiv(96, meta["BLOCK"]),)](x, out, 96)
    assert out.numpy()[0] == 96 * 95 // 2
    assert len(seen) == measured + 1
    assert accumulate.best_config in configs


@pytest.mark.pure
def test_an_unknown_key_is_an_error() -> None:
    @triton.jit
    def program(x_ptr):
        tl.store(x_ptr, 0)

    with pytest.raises(ValueError, match="program has no parameter M; it has x_ptr"):
        triton.autotune(configs=[], key=["M"])(program)


@pytest.mark.pure
def test_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = triton.testing.Benchmark(["n"], [1, 2, 4], "by", ["one", "two"], ["One", "Two"], "times", {"k": 10})

    @triton.testing.perf_report(bench)
    def measure(n: int, by: str, k: int) -> Any:
        return n * k if by == "one" else (2 * n * k, 0, 0)

    assert measure.run(print_data=True) == [[(1, 10, 20), (2, 20, 40), (4, 40, 80)]]
    assert "n,One,Two\n1,10,20\n" in capsys.readouterr().out
    pytest.importorskip("matplotlib").use("agg")
    measure.run(save_path=str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"times.png", "times.csv"}


@pytest.mark.pure
def test_measurements() -> None:
    calls: list[int] = []
    times = triton.testing.do_bench(lambda: calls.append(0), warmup=0.01, rep=0.01, return_mode="all")
    assert len(times) >= 1
    assert len(calls) > len(times)
    low, high = triton.testing.do_bench(lambda: None, warmup=0.01, rep=0.01, quantiles=[0.2, 0.8])
    assert 0 <= low <= high
    with pytest.raises(ValueError, match="return_mode"):
        triton.testing.do_bench(lambda: None, return_mode="average")


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
