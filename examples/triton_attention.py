"""Triton's fused attention on any device, forward: no table of scores in memory. Measures its time beside NumPy's.

Each program computes a block of rows of one head, with the online softmax (Milakov and Gimelshein, 2018) of
FlashAttention (Dao et al., 2022).
"""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

BLOCK = 16  # queries and keys of a block; few, so that the drivers of CPUs compile the kernel in seconds


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, n, scale, causal, HEAD_DIM: tl.constexpr,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * n * HEAD_DIM
    queries = tl.make_tensor_descriptor(q_ptr + head, [n, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    keys = tl.make_tensor_descriptor(k_ptr + head, [n, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    values = tl.make_tensor_descriptor(v_ptr + head, [n, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    out = tl.make_tensor_descriptor(out_ptr + head, [n, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])

    q = queries.load([start_m, 0]) * scale
    last = tl.full((BLOCK_M,), n - 1, tl.int32)
    end = n
    if causal:
        last = tl.minimum(last, start_m + tl.arange(0, BLOCK_M))
        end = tl.minimum(n, start_m + BLOCK_M)
    highest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start_n in range(0, end, BLOCK_N):
        visible = (start_n + tl.arange(0, BLOCK_N))[None, :] <= last[:, None]
        scores = tl.where(visible, tl.dot(q, keys.load([start_n, 0]).T), -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        powers = tl.exp(scores - new_highest[:, None])
        shrink = tl.exp(highest - new_highest)
        total = total * shrink + tl.sum(powers, axis=1)
        acc = tl.dot(powers, values.load([start_n, 0]), acc * shrink[:, None])
        highest = new_highest
    out.store([start_m, 0], acc / total[:, None])


def attention(q: vc.Array, k: vc.Array, v: vc.Array, out: vc.Array, causal: bool) -> vc.Future:
    """Computes softmax(q @ k.T / sqrt(d)) @ v per head, of arrays of heads, rows and d elements."""
    n_heads, n, d = q.shape
    grid = triton.cdiv(n, BLOCK), n_heads
    return attention_kernel[grid](q, k, v, out, n, d**-0.5, causal, HEAD_DIM=d, BLOCK_M=BLOCK, BLOCK_N=BLOCK)


def by_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q @ k.swapaxes(1, 2) * np.float32(q.shape[2] ** -0.5)
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, np.float32(-np.inf))
    powers = np.exp(scores - scores.max(2, keepdims=True))
    return powers @ v / powers.sum(2, keepdims=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n"],
        x_vals=[64, 128, 256],
        x_log=True,
        y_log=True,
        line_arg="line",
        line_vals=[("vkcompute", False), ("vkcompute", True), ("numpy", False), ("numpy", True)],
        line_names=["vkcompute", "vkcompute causal", "NumPy", "NumPy causal"],
        styles=[("C0", "-"), ("C0", "--"), ("C1", "-"), ("C1", "--")],
        xlabel="rows of each of 4 heads",
        ylabel="ms",
        plot_name="attention",
        args={"n_heads": 4, "d": 16},
    )
)
def milliseconds(n_heads: int, n: int, d: int, line: tuple[str, bool]) -> tuple[float, ...]:
    """Returns the time of a call: the median, and a range."""
    provider, causal = line
    host = list(np.random.default_rng(0).normal(size=(3, n_heads, n, d)).astype(np.float32))
    q, k, v = (vc.default_runtime().array(each) for each in host)
    out = vc.default_runtime().empty(q.shape, q.dtype)
    fn = (lambda: by_numpy(*host, causal)) if provider == "numpy" else lambda: attention(q, k, v, out, causal)
    return tuple(triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.2, 0.8]))


def main() -> None:
    """Checks the results, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu = vc.default_runtime()
    host = list(np.random.default_rng(1).normal(size=(3, 2, 100, 16)).astype(np.float32))
    q, k, v = (gpu.array(each) for each in host)
    out = gpu.empty(q.shape, q.dtype)
    for causal in (False, True):
        attention(q, k, v, out, causal)
        equal = np.allclose(out.numpy(), by_numpy(*host, causal), atol=1e-5)
        print(f"{'causal' if causal else 'full'} attention equal to numpy:", equal)
    milliseconds.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
