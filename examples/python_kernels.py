"""Kernels written in Python: saxpy, and the Mandelbrot set with a function that is inlined. No compiler is needed.

python examples/python_kernels.py
"""

import numpy as np

import vkcompute as vc


@vc.kernel
def saxpy(x, y, out, a):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def escape(real, imaginary, limit):
    """After how many steps of z = z² + c the point c has left the circle of radius 2."""
    x, y = 0.0, 0.0
    for step in range(limit):
        if x * x + y * y > 4:
            return step
        x, y = x * x - y * y + real, 2 * x * y + imaginary
    return limit


@vc.kernel
def mandelbrot(out, limit):
    column, row = vc.global_id(0), vc.global_id(1)
    rows, columns = out.shape
    if row < rows and column < columns:
        out[row, column] = escape(3 * (column + 0.5) / columns - 2.25, 2.5 * (row + 0.5) / rows - 1.25, limit)


with vc.Runtime() as gpu:
    rng = np.random.default_rng(0)
    x, y = (gpu.tensor(rng.random(1_000_000, np.float32)) for _ in range(2))
    out = gpu.empty(x.shape, x.dtype)
    saxpy(x, y, out, 2.0)  # one invocation per element of `out`; compiled for these types at the first call
    saxpy[(out.size + 255) // 256, 256](x, y, out, 2.0)  # or so many workgroups, of so many invocations
    print("saxpy equals numpy:", np.allclose(out.numpy(), 2 * x.numpy() + y.numpy()))

    picture = gpu.empty((24, 72), np.int32)
    mandelbrot(picture, 100)
    for line in picture.numpy():
        print("".join(" .:-=+*%@#"[min(steps // 4, 9)] for steps in line))

    try:
        saxpy(x, y, picture, 2.0)
    except vc.KernelError as error:
        print("\nA mistake is shown with its place:", str(error).rpartition("/")[2], sep="\n")
