"""Triton's grouped matrix product on any device: products of several shapes in one launch.

Vulkan has no pointers in memory: all factors are in one flat array, and an int32 array has their shapes and offsets.
Plots its throughput beside NumPy's.

python examples/triton_grouped_gemm.py [folder for the plot]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

N_PROGRAMS = 8  # enough for a CPU of a few cores; a GPU runs more at once


@triton.jit
def grouped_kernel(factors_ptr, out_ptr, table_ptr, n_products, N_PROGRAMS: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Computes every N_PROGRAMS-th tile of all products."""
    tile = tl.program_id(0)
    begin = 0
    for product in range(n_products):
        row = table_ptr + product * 6
        m, n, k = tl.load(row), tl.load(row + 1), tl.load(row + 2)
        a = tl.make_tensor_descriptor(factors_ptr + tl.load(row + 3), [m, k], [k, 1], [BM, BK])
        b = tl.make_tensor_descriptor(factors_ptr + tl.load(row + 4), [k, n], [n, 1], [BK, BN])
        c = tl.make_tensor_descriptor(out_ptr + tl.load(row + 5), [m, n], [n, 1], [BM, BN])
        n_across = tl.cdiv(n, BN)
        end = begin + tl.cdiv(m, BM) * n_across
        while tile < end:
            tile_m, tile_n = (tile - begin) // n_across * BM, (tile - begin) % n_across * BN
            total = tl.zeros((BM, BN), tl.float32)
            for start in range(0, k, BK):
                total = tl.dot(a.load([tile_m, start]), b.load([start, tile_n]), total)
            c.store([tile_m, tile_n], total)
            tile += N_PROGRAMS
        begin = end


class Products:
    """Products of pairs of matrices, all of them in one launch."""

    def __init__(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        gpu = vc.default_runtime()
        factors = [each for pair in pairs for each in pair]
        starts = np.cumsum([0, *(each.size for each in factors)])
        self.shapes = [(a.shape[0], b.shape[1]) for a, b in pairs]
        self.ends = np.cumsum([m * n for m, n in self.shapes])
        begins = [0, *self.ends[:-1]]
        rows = [(m, n, a.shape[1]) for (m, n), (a, _) in zip(self.shapes, pairs, strict=True)]
        table = np.column_stack([rows, starts[:-1].reshape(-1, 2), begins])
        self.factors = gpu.array(np.concatenate([each.ravel() for each in factors]))
        self.table = gpu.array(table.astype(np.int32))
        self.out = gpu.empty(int(self.ends[-1]), np.float32)

    def compute(self) -> vc.Future:
        """Launches the products."""
        given = self.factors, self.out, self.table, len(self.shapes)
        return grouped_kernel[(N_PROGRAMS,)](*given, N_PROGRAMS=N_PROGRAMS, BM=32, BN=32, BK=8)

    def numpy(self) -> list[np.ndarray]:
        """Returns the results."""
        flat = np.split(self.out.numpy(), self.ends[:-1])
        return [each.reshape(shape) for each, shape in zip(flat, self.shapes, strict=True)]


def random_pairs(n_products: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns pairs of matrices with axes of 16 to 96 elements."""
    random = np.random.default_rng(n_products)
    sizes = random.integers(16, 97, (n_products, 3))
    return [
        (random.normal(size=(m, k)).astype(np.float32), random.normal(size=(k, n)).astype(np.float32))
        for m, n, k in sizes
    ]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n_products"],
        x_vals=[2, 8, 32],
        x_log=True,
        y_log=True,
        line_arg="provider",
        line_vals=["vkcompute", "numpy"],
        line_names=["vkcompute", "NumPy"],
        ylabel="GFLOP/s",
        plot_name="grouped_gemm",
        args={},
    )
)
def throughput(n_products: int, provider: str) -> tuple[float, ...]:
    """Returns the operations per nanosecond: the median, and a range."""
    pairs = random_pairs(n_products)
    products = Products(pairs)

    def by_numpy() -> None:
        for a, b in pairs:
            np.matmul(a, b)

    fn = by_numpy if provider == "numpy" else products.compute
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple(sum(2 * a.size * b.shape[1] for a, b in pairs) * 1e-6 / time for time in times)


def main() -> None:
    """Checks the results, then measures."""
    pairs = random_pairs(5)
    products = Products(pairs)
    products.compute()
    results = zip(products.numpy(), pairs, strict=True)
    print("equal to numpy:", all(np.allclose(found, a @ b, atol=1e-4) for found, (a, b) in results))
    throughput.run(print_data=True, save_path=sys.argv[1] if len(sys.argv) > 1 else "")


if __name__ == "__main__":
    main()
