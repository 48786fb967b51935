"""The array multiply as a kernel in Python, for every dtype and any number of axes.

    python examples/multiply_kernel.py

The built-in `vc.multiply` supports every dtype on every device, and streams host arrays of any size.
"""

import numpy as np

import vkcompute as vc


@vc.kernel
def multiply(a, b, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a[i] * b[i]


def main(n=1_000_000):
    rng = np.random.default_rng(0)
    with vc.Runtime() as gpu:
        for dtype in (np.float32, np.int32, np.uint32):  # compiled once for each; integers wrap as numpy's do
            a, b = (rng.integers(-1000, 1000, n) << 8).astype(dtype), rng.integers(1, 100, n).astype(dtype)
            out = gpu.empty(n, dtype)
            multiply(gpu.array(a), gpu.array(b), out)
            print(f"{out.dtype!s:7} equals numpy:", np.array_equal(out.numpy(), a * b))

        # The kernel takes one axis. A contiguous array with more axes is reshaped, without a copy.
        rows = gpu.array(np.arange(12, dtype=np.float32).reshape(3, 4))
        multiply(rows.reshape(-1), rows.reshape(-1), rows.reshape(-1))
        print("squares in place equal numpy:", np.array_equal(rows.numpy(), np.arange(12.0).reshape(3, 4) ** 2))

        # Recorded once, run three times in one submit. Each run doubles `x`.
        x, two = gpu.full(n, 1.5), gpu.full(n, 2.0)
        with gpu.record() as doubling:
            multiply(x, two, x)
        doubling.run(times=3)
        print("a graph, run three times, equals numpy:", np.array_equal(x.numpy(), np.full(n, 12.0)))


if __name__ == "__main__":
    main()
