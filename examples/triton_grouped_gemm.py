"""Triton's grouped matrix product on any device: products of several shapes in one launch.

The program loads the addresses of its matrices from tables of pointers. Measures its throughput beside NumPy's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

N_PROGRAMS = 8  # enough for a CPU of a few cores; a GPU runs more at once


@triton.jit
def grouped_kernel(group_a_ptrs, group_b_ptrs, group_c_ptrs, sizes_ptr, lds_ptr, group_size, N_PROGRAMS: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Computes every N_PROGRAMS-th tile of all products.

    Each product has a row of sizes (m, n, k), and one of leading dimensions: the steps between rows of a, b and c.
    """
    tile = tl.program_id(0)
    begin = 0
    for g in range(group_size):
        m, n, k = tl.load(sizes_ptr + g * 3), tl.load(sizes_ptr + g * 3 + 1), tl.load(sizes_ptr + g * 3 + 2)
        n_across = tl.cdiv(n, BN)
        end = begin + tl.cdiv(m, BM) * n_across
        while tile >= begin and tile < end:
            lda, ldb, ldc = tl.load(lds_ptr + g * 3), tl.load(lds_ptr + g * 3 + 1), tl.load(lds_ptr + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float32))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float32))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float32))
            rows = (tile - begin) // n_across * BM + tl.arange(0, BM)
            columns = (tile - begin) % n_across * BN + tl.arange(0, BN)
            inner = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + inner[None, :]
            b_ptrs = b_ptr + inner[:, None] * ldb + columns[None, :]
            total = tl.zeros((BM, BN), tl.float32)
            for start in range(0, k, BK):
                a = tl.load(a_ptrs, mask=(rows[:, None] < m) & (inner[None, :] < k - start), other=0.0)
                b = tl.load(b_ptrs, mask=(inner[:, None] < k - start) & (columns[None, :] < n), other=0.0)
                total = tl.dot(a, b, total)
                a_ptrs += BK
                b_ptrs += BK * ldb
            mask = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c_ptr + rows[:, None] * ldc + columns[None, :], total, mask=mask)
            tile += N_PROGRAMS
        begin = end


class Products:
    """Products of pairs of matrices, all of them in one launch."""

    def __init__(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        gpu = vc.default_runtime()
        self.results = [gpu.empty((a.shape[0], b.shape[1]), a.dtype) for a, b in pairs]
        factors = [[gpu.array(pair[at]) for pair in pairs] for at in (0, 1)]
        self.tables = [triton.PointerTable(factor) for factor in (*factors, self.results)]
        sizes = np.array([(a.shape[0], b.shape[1], b.shape[0]) for a, b in pairs], np.int32)
        self.sizes, self.leading = gpu.array(sizes), gpu.array(np.ascontiguousarray(sizes[:, [2, 1, 1]]))

    def compute(self) -> vc.Future:
        """Launches the products."""
        given = *self.tables, self.sizes, self.leading, len(self.results)
        return grouped_kernel[(N_PROGRAMS,)](*given, N_PROGRAMS=N_PROGRAMS, BM=32, BN=32, BK=8)

    def numpy(self) -> list[np.ndarray]:
        """Returns the results."""
        return [result.numpy() for result in self.results]


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    pairs = random_pairs(5)
    products = Products(pairs)
    products.compute()
    results = zip(products.numpy(), pairs, strict=True)
    print("equal to numpy:", all(np.allclose(result, a @ b, atol=1e-4) for result, (a, b) in results))
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
