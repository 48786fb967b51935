"""Triton's fused softmax on any device: one read and one write per element. Measures its throughput beside NumPy's."""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def softmax_kernel(output_ptr, input_ptr, row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_cols
    x = tl.load(input_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(output_ptr + row * row_stride + columns, powers / tl.sum(powers, axis=0), mask=mask)


def softmax(x: vc.Array, out: vc.Array) -> vc.Future:
    """Computes the softmax of each row."""
    n_rows, n_cols = x.shape
    return softmax_kernel[(n_rows,)](out, x, n_cols, n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n_cols"],
        x_vals=[256, 512, 1024],
        x_log=True,
        line_arg="provider",
        line_vals=["vkcompute", "numpy"],
        line_names=["vkcompute", "NumPy"],
        ylabel="GB/s",
        plot_name="softmax",
        args={"n_rows": 256},
    )
)
def throughput(n_rows: int, n_cols: int, provider: str) -> tuple[float, float, float]:
    """Returns the bytes read and written per nanosecond: the median, and a range."""
    host = np.random.default_rng(0).normal(size=(n_rows, n_cols)).astype(np.float32)
    x = vc.default_runtime().array(host)
    out = vc.default_runtime().empty((n_rows, n_cols), host.dtype)

    def by_numpy() -> None:
        powers = np.exp(host - host.max(1, keepdims=True))
        powers /= powers.sum(1, keepdims=True)

    fn = by_numpy if provider == "numpy" else lambda: softmax(x, out)
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple(2 * host.nbytes * 1e-6 / time for time in times)  # type: ignore[return-value]


def main() -> None:
    """Checks a result, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu = vc.default_runtime()
    host = np.random.default_rng(1).normal(size=(100, 781)).astype(np.float32)
    out = gpu.empty(host.shape, host.dtype)
    softmax(gpu.array(host), out)
    powers = np.exp(host - host.max(1, keepdims=True))
    print("equal to numpy:", np.allclose(out.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5))
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
