"""Triton's vector addition on any device: each program adds one block. Measures its throughput beside NumPy's."""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def add(x: vc.Array, y: vc.Array, out: vc.Array) -> vc.Future:
    """Adds two contiguous arrays, of any shape."""
    grid = lambda meta: (triton.cdiv(out.size, meta["BLOCK_SIZE"]),)  # noqa: E731
    return add_kernel[grid](x, y, out, out.size, BLOCK_SIZE=1024)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n_elements"],
        x_vals=[2**i for i in range(12, 23, 2)],
        x_log=True,
        line_arg="provider",
        line_vals=["vkcompute", "numpy"],
        line_names=["vkcompute", "NumPy"],
        ylabel="GB/s",
        plot_name="vector_add",
        args={},
    )
)
def throughput(n_elements: int, provider: str) -> tuple[float, ...]:
    """Returns the bytes read and written per nanosecond: the median, and a range."""
    a, b = np.random.default_rng(0).random((2, n_elements), np.float32)
    sums = np.empty_like(a)
    gpu = vc.default_runtime()
    x, y, out = gpu.array(a), gpu.array(b), gpu.empty(a.shape, a.dtype)
    fn = (lambda: np.add(a, b, out=sums)) if provider == "numpy" else lambda: add(x, y, out)
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple(3 * a.nbytes * 1e-6 / time for time in times)


def main() -> None:
    """Checks a result, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu = vc.default_runtime()
    a, b = np.random.default_rng(1).random((2, 98_432), np.float32)
    out = gpu.empty(a.shape, a.dtype)
    add(gpu.array(a), gpu.array(b), out)
    print("equal to numpy:", np.array_equal(out.numpy(), a + b))
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
