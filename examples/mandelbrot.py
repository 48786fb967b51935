"""A picture of the Mandelbrot set: a kernel over two axes that calls a function.

    python examples/mandelbrot.py

Writes mandelbrot.png. Needs the extra `plot`.
"""

import math

import numpy as np

import vkcompute as vc

LIMIT = 200


def escape(real, imaginary, limit):
    """The smoothed number of steps of z = z² + c until |z| > 8; 0 if that is not reached."""
    x, y = 0.0, 0.0
    for step in range(limit):
        if x * x + y * y > 64:
            return step + 1 - math.log2(0.5 * math.log2(x * x + y * y))
        x, y = x * x - y * y + real, 2 * x * y + imaginary
    return 0.0


@vc.kernel
def mandelbrot(out, limit):
    column, row = vc.global_id(0), vc.global_id(1)
    rows, columns = out.shape
    if row < rows and column < columns:
        out[row, column] = escape(3 * (column + 0.5) / columns - 2.25, 2.5 * (row + 0.5) / rows - 1.25, limit)


def on_host(rows, columns, limit):
    """Computes the same with numpy."""
    row, column = np.mgrid[:rows, :columns].astype(np.float32) + np.float32(0.5)
    c = (3 * column / columns - 2.25) + 1j * (2.5 * row / rows - 1.25)
    z, count = np.zeros_like(c), np.zeros(c.shape, np.float32)
    for step in range(limit):
        size = abs(z) ** 2
        new = (size > 64) & (count == 0)
        count[new] = step + 1 - np.log2(0.5 * np.log2(size[new]))
        z = np.where(count == 0, z**2 + c, z)
    return count


def main(rows=500, columns=600):
    with vc.Runtime() as gpu:
        picture = gpu.empty((rows, columns))
        mandelbrot(picture, LIMIT)  # one invocation per element; columns are the grid's first axis
        counts = picture.numpy()
    # At the border of the set the count depends on rounding.
    equal = np.mean(abs(counts - on_host(rows, columns, LIMIT)) < 0.5)
    print(f"{equal:.0%} of the points equal numpy's")
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the picture needs matplotlib: pip install 'vkcompute[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.imsave("mandelbrot.png", np.log1p(counts), cmap="inferno")
    print(f"mandelbrot.png: {columns} x {rows}")


if __name__ == "__main__":
    main()
