"""Triton's low-memory dropout on any device: a seed in place of a mask. Measures its throughput beside NumPy's."""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    kept = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(kept, x / (1 - p), 0.0), mask=mask)


def dropout(x: vc.Array, out: vc.Array, p: float, seed: int) -> vc.Future:
    """Zeroes elements with probability `p`, and scales the others. The same seed gives the gradients their mask."""
    return dropout_kernel[(triton.cdiv(x.size, 256),)](x, out, x.size, p, seed, BLOCK_SIZE=256)


def uniform(seed: int, n_elements: int) -> np.ndarray:
    """The numbers of `tl.rand` by NumPy: the first word of Philox 4x32-10 (Salmon et al., 2011) per element."""
    low = 0xFFFFFFFF
    keys = np.array([seed & low, seed >> 32 & low], np.uint64)
    a = np.arange(n_elements, dtype=np.uint64)
    b = c = d = np.zeros_like(a)
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, c = second >> 32 ^ b ^ keys[0], first >> 32 ^ d ^ keys[1]
        b, d = second & low, first & low
        keys = keys + np.array([0x9E3779B9, 0xBB67AE85], np.uint64) & low
    words = a.astype(np.uint32).view(np.int32)
    return np.where(words < 0, ~words, words).astype(np.float32) * np.float32(4.6566127342e-10)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n_elements"],
        x_vals=[2**i for i in range(12, 21, 2)],
        x_log=True,
        line_arg="provider",
        line_vals=["vkcompute", "numpy"],
        line_names=["vkcompute", "NumPy"],
        ylabel="GB/s",
        plot_name="dropout",
        args={"p": 0.5},
    )
)
def throughput(n_elements: int, p: float, provider: str) -> tuple[float, ...]:
    """Returns the bytes read and written per nanosecond, without those of masks: the median, and a range."""
    random = np.random.default_rng(0)
    host = random.normal(size=n_elements).astype(np.float32)
    x = vc.default_runtime().array(host)
    out = vc.default_runtime().empty(host.shape, host.dtype)

    def by_numpy() -> None:
        kept = random.random(n_elements, np.float32) > p
        np.where(kept, host / np.float32(1 - p), np.float32(0))

    fn = by_numpy if provider == "numpy" else lambda: dropout(x, out, p, 123)
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple(2 * host.nbytes * 1e-6 / time for time in times)


def main() -> None:
    """Checks a result, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu, p, seed = vc.default_runtime(), 0.4, 123
    host = np.random.default_rng(1).normal(size=10_000).astype(np.float32)
    out = gpu.empty(host.shape, host.dtype)
    dropout(gpu.array(host), out, p, seed)
    kept = uniform(seed, host.size) > np.float32(p)
    print("equal to numpy:", np.allclose(out.numpy(), np.where(kept, host / np.float32(1 - p), 0), rtol=1e-6))
    print(f"{kept.mean():.1%} of {host.size} elements are kept")
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
