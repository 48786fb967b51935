"""Triton's layer normalization on any device, forward and backward. Measures its throughput beside NumPy's.

Each program of the backward pass sums the gradients of weight and bias over its own rows, and a second launch adds
these partial sums. No program waits for another one, so no locks are needed.
"""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

N_PARTS = 32  # partial sums per column: programs of the backward pass
EPSILON = 1e-5


@triton.jit
def forward_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, n_cols, epsilon, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * n_cols + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + epsilon)
    weight = tl.load(weight_ptr + columns, mask=mask)
    bias = tl.load(bias_ptr + columns, mask=mask)
    tl.store(y_ptr + row * n_cols + columns, centred * scale * weight + bias, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)


@triton.jit
def backward_kernel(dy_ptr, x_ptr, weight_ptr, mean_ptr, scale_ptr, dx_ptr, parts_ptr, n_rows, n_cols,
                    N_PARTS: tl.constexpr, BLOCK_SIZE: tl.constexpr):  # fmt: skip
    part = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_cols
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    dweight = tl.zeros((BLOCK_SIZE,), tl.float32)
    dbias = tl.zeros((BLOCK_SIZE,), tl.float32)
    for row in range(part, n_rows, N_PARTS):
        x = tl.load(x_ptr + row * n_cols + columns, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + row * n_cols + columns, mask=mask, other=0.0)
        scale = tl.load(scale_ptr + row)
        normalized = (x - tl.load(mean_ptr + row)) * scale
        weighted = weight * dy
        along = tl.sum(normalized * weighted, axis=0) / n_cols
        dx = (weighted - normalized * along - tl.sum(weighted, axis=0) / n_cols) * scale
        tl.store(dx_ptr + row * n_cols + columns, dx, mask=mask)
        dweight += dy * normalized
        dbias += dy
    tl.store(parts_ptr + part * n_cols + columns, dweight, mask=mask)
    tl.store(parts_ptr + (N_PARTS + part) * n_cols + columns, dbias, mask=mask)


@triton.jit
def sum_kernel(parts_ptr, out_ptr, n_cols, N_PARTS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    columns = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    kind = tl.program_id(1)
    rows = kind * N_PARTS + tl.arange(0, N_PARTS)
    parts = tl.load(parts_ptr + rows[:, None] * n_cols + columns[None, :], mask=columns[None, :] < n_cols, other=0.0)
    tl.store(out_ptr + kind * n_cols + columns, tl.sum(parts, axis=0), mask=columns < n_cols)


class LayerNorm:
    """Normalizes the rows of arrays of one shape. Keeps the rows' means and scales for the gradients."""

    def __init__(self, weight: vc.Array, bias: vc.Array, shape: tuple[int, int]) -> None:
        gpu = vc.default_runtime()
        self.weight, self.bias, self.shape = weight, bias, shape
        self.block_size = triton.next_power_of_2(shape[1])
        self.mean, self.scale = gpu.empty(shape[0], np.float32), gpu.empty(shape[0], np.float32)
        self.parts = gpu.empty((2, N_PARTS, shape[1]), np.float32)

    def forward(self, x: vc.Array, y: vc.Array) -> vc.Future:
        """Normalizes `x` to `y`."""
        n_rows, n_cols = self.shape
        arrays = x, self.weight, self.bias, y, self.mean, self.scale
        return forward_kernel[(n_rows,)](*arrays, n_cols, EPSILON, BLOCK_SIZE=self.block_size)

    def backward(self, dy: vc.Array, x: vc.Array, dx: vc.Array, dparameters: vc.Array) -> vc.Future:
        """Computes the gradients of `x`, and those of weight and bias as the two rows of `dparameters`."""
        arrays = dy, x, self.weight, self.mean, self.scale, dx, self.parts
        backward_kernel[(N_PARTS,)](*arrays, *self.shape, N_PARTS=N_PARTS, BLOCK_SIZE=self.block_size)
        grid = triton.cdiv(self.shape[1], 64), 2
        return sum_kernel[grid](self.parts, dparameters, self.shape[1], N_PARTS=N_PARTS, BLOCK_SIZE=64)


def forward_by_numpy(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns y, the normalized rows, and their scales."""
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(1, keepdims=True) + EPSILON)
    return centred * scale * weight + bias, centred * scale, scale


def backward_by_numpy(
    dy: np.ndarray, weight: np.ndarray, normalized: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns dx, and the gradients of weight and bias as two rows."""
    weighted = weight * dy
    along = (normalized * weighted).mean(1, keepdims=True)
    dx = (weighted - normalized * along - weighted.mean(1, keepdims=True)) * scale
    return dx, np.stack([(dy * normalized).sum(0), dy.sum(0)])


@triton.testing.perf_report(
    [
        triton.testing.Benchmark(
            x_names=["n_cols"],
            x_vals=[256, 512, 1024],
            x_log=True,
            line_arg="provider",
            line_vals=["vkcompute", "numpy"],
            line_names=["vkcompute", "NumPy"],
            ylabel="GB/s",
            plot_name=f"layer_norm_{direction}",
            args={"n_rows": 256, "direction": direction},
        )
        for direction in ("forward", "backward")
    ]
)
def throughput(n_rows: int, n_cols: int, direction: str, provider: str) -> tuple[float, ...]:
    """Returns the bytes of x, y and their gradients that a direction reads and writes per nanosecond."""
    gpu, random = vc.default_runtime(), np.random.default_rng(0)
    x, dy = random.normal(size=(2, n_rows, n_cols)).astype(np.float32)
    weight, bias = random.normal(size=(2, n_cols)).astype(np.float32)
    norm = LayerNorm(gpu.array(weight), gpu.array(bias), x.shape)
    on_device, gradients = gpu.array(x), gpu.array(dy)
    out, dparameters = gpu.empty(x.shape, x.dtype), gpu.empty((2, n_cols), x.dtype)
    norm.forward(on_device, out)
    _, normalized, scale = forward_by_numpy(x, weight, bias)
    fn = {
        ("vkcompute", "forward"): lambda: norm.forward(on_device, out),
        ("vkcompute", "backward"): lambda: norm.backward(gradients, on_device, out, dparameters),
        ("numpy", "forward"): lambda: forward_by_numpy(x, weight, bias)[0],
        ("numpy", "backward"): lambda: backward_by_numpy(dy, weight, normalized, scale)[0],
    }[provider, direction]
    times = triton.testing.do_bench(fn, warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return tuple((2 if direction == "forward" else 3) * x.nbytes * 1e-6 / time for time in times)


def main() -> None:
    """Checks the results and the gradients, then measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="saves plots and tables there; without it, prints tables")
    folder = parser.parse_args().folder
    gpu, random, shape = vc.default_runtime(), np.random.default_rng(1), (112, 720)
    x, dy = random.normal(size=(2, *shape)).astype(np.float32)
    weight, bias = random.normal(size=(2, shape[1])).astype(np.float32)
    y, dx, dparameters = gpu.empty(shape, x.dtype), gpu.empty(shape, x.dtype), gpu.empty((2, shape[1]), x.dtype)
    norm, on_device = LayerNorm(gpu.array(weight), gpu.array(bias), shape), gpu.array(x)
    norm.forward(on_device, y)
    norm.backward(gpu.array(dy), on_device, dx, dparameters)
    wanted, normalized, scale = forward_by_numpy(x, weight, bias)
    print("results equal to numpy:", np.allclose(y.numpy(), wanted, atol=1e-5))
    gradients = zip((dx, dparameters), backward_by_numpy(dy, weight, normalized, scale), strict=True)
    print("gradients equal to numpy:", all(np.allclose(result.numpy(), item, atol=1e-4) for result, item in gradients))
    throughput.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
