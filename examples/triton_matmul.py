"""Triton's matrix product with grouped ordering and a fused activation, tuned for the device.

Measures its throughput beside NumPy's.
"""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

CONFIGS = [triton.Config({"BM": m, "BN": n, "BK": 16, "GROUP": 4}, num_warps=4) for m, n in ((32, 32), (64, 32))]


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                  GROUP: tl.constexpr, ACTIVATION: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    num_pid_m, num_pid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    pid_m, pid_n = tl.swizzle2d(pid // num_pid_n, pid % num_pid_n, num_pid_m, num_pid_n, GROUP)
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([pid_m * BM, k]), b.load([k, pid_n * BN]), total)
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN]).store([pid_m * BM, pid_n * BN], total)


tuned = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(matmul_kernel)


def matmul(a: vc.Array, b: vc.Array, out: vc.Array, activation: str = "") -> vc.Future:
    """Computes an activation of a @ b, of contiguous matrices."""
    (m, k), n = a.shape, b.shape[1]
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    return tuned[grid](a, b, out, m, n, k, ACTIVATION=activation)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n"],
        x_vals=[64, 128, 256],
        x_log=True,
        y_log=True,
        line_arg="provider",
        line_vals=["vkcompute", "numpy"],
        line_names=["vkcompute", "NumPy"],
        xlabel="rows and columns",
        ylabel="GFLOP/s",
        plot_name="matmul",
        args={},
    )
)
def throughput(n: int, provider: str) -> tuple[float, ...]:
    """Returns the operations per nanosecond: the median, and a range."""
    host = np.random.default_rng(0).normal(size=(2, n, n)).astype(np.float32)
    a, b = (vc.default_runtime().array(each) for each in host)
    out = vc.default_runtime().empty((n, n), host.dtype)
    fn = (lambda: np.matmul(*host)) if provider == "numpy" else lambda: matmul(a, b, out)
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple(2 * n**3 * 1e-6 / time for time in times)


def main() -> None:
    """Checks a result, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu, (m, n, k) = vc.default_runtime(), (200, 180, 150)
    a, b = (np.random.default_rng(k).normal(size=size).astype(np.float32) for size in ((m, k), (k, n)))
    c = gpu.empty((m, n), a.dtype)
    matmul(gpu.array(a), gpu.array(b), c, "leaky_relu")
    wanted = a @ b
    print("equal to numpy:", np.allclose(c.numpy(), np.where(wanted >= 0, wanted, 0.01 * wanted), atol=1e-4))
    print(f"{m} x {k} by {k} x {n}, with {tuned.best_config.kwargs}")
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
