"""A kernel in Python: saxpy, with a default and an explicit grid, and an error message. Needs no GLSL compiler.

python examples/saxpy.py
"""

import numpy as np

import vkcompute as vc


@vc.kernel
def saxpy(x, y, out, a):
    i = vc.global_id(0)
    if i < out.size:  # the last workgroup may extend beyond the end
        out[i] = a * x[i] + y[i]


def main(n=1_000_000):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n), np.float32)
    with vc.Runtime() as gpu:
        x, y = gpu.array(a), gpu.array(b)
        out = gpu.empty(n, np.float32)
        saxpy(x, y, out, 2.0)  # one invocation per element of `out`; compiled for these types at the first call
        print("saxpy equals numpy:", np.allclose(out.numpy(), 2 * a + b))
        saxpy[(n + 255) // 256, 256](x, y, out, 3.0)  # number of workgroups, invocations per workgroup
        print("saxpy on a grid equals numpy:", np.allclose(out.numpy(), 3 * a + b))
        try:
            saxpy(x, y, out, x)
        except vc.KernelError as error:
            print("\nAn error shows its position:", str(error).rpartition("/")[2], sep="\n")


if __name__ == "__main__":
    main()
