"""Kernels written in Python: saxpy, two ways to give it a grid, and what a mistake looks like. No compiler is needed.

python examples/saxpy.py
"""

import numpy as np

import vkcompute as vc


@vc.kernel
def saxpy(x, y, out, a):
    i = vc.global_id(0)
    if i < out.size:  # whole workgroups are launched, so the last one may reach beyond the end
        out[i] = a * x[i] + y[i]


def main(n=1_000_000):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n), np.float32)
    with vc.Runtime() as gpu:
        x, y = gpu.tensor(a), gpu.tensor(b)
        out = gpu.empty(n, np.float32)
        saxpy(x, y, out, 2.0)  # one invocation per element of `out`; compiled for these types at the first call
        print("saxpy equals numpy:", np.allclose(out.numpy(), 2 * a + b))
        saxpy[(n + 255) // 256, 256](x, y, out, 3.0)  # or so many workgroups, of so many invocations
        print("saxpy on a grid equals numpy:", np.allclose(out.numpy(), 3 * a + b))
        try:
            saxpy(x, y, gpu.empty((24, 72)), 2.0)
        except vc.KernelError as error:
            print("\nA mistake is shown with its place:", str(error).rpartition("/")[2], sep="\n")


if __name__ == "__main__":
    main()
