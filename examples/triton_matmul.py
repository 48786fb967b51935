"""Triton's matrix product with grouped ordering and a fused activation, tuned for the device.

python examples/triton_matmul.py
"""

from __future__ import annotations

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


def main() -> None:
    """Multiplies two matrices, and compares with NumPy."""
    gpu, (m, n, k) = vc.default_runtime(), (200, 180, 150)
    a, b = (np.random.default_rng(k).normal(size=size).astype(np.float32) for size in ((m, k), (k, n)))
    c = gpu.empty((m, n), a.dtype)
    tuned = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(matmul_kernel)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    tuned[grid](gpu.array(a), gpu.array(b), c, m, n, k, ACTIVATION="leaky_relu")
    wanted = a @ b
    print("equal to numpy:", np.allclose(c.numpy(), np.where(wanted >= 0, wanted, 0.01 * wanted), atol=1e-4))
    print(f"{m} x {k} by {k} x {n}, with {tuned.best_config.kwargs}")


if __name__ == "__main__":
    main()
