"""Filters of an image in array code: a blur, edges by Sobel's operator, and a threshold; and how they are fused.

python examples/image_filter.py --help
"""

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp

BLUR = 0.25, 0.5, 0.25


def picture(size):
    """Returns a bright disc with noise, as float32 from 0 to 1."""
    row, column = np.mgrid[:size, :size] / size - 0.5
    noise = np.random.default_rng(0).normal(0, 0.02, (size, size))
    return np.clip((np.hypot(row, column) < 0.3) + noise, 0, 1).astype(np.float32)


def blurred(image):
    """Returns weighted means of neighbours, along the rows and then along the columns; the border is left out."""
    rows = BLUR[0] * image[:-2] + BLUR[1] * image[1:-1] + BLUR[2] * image[2:]
    return BLUR[0] * rows[:, :-2] + BLUR[1] * rows[:, 1:-1] + BLUR[2] * rows[:, 2:]


def edges(image, xp):
    """Returns the length of the gradient by Sobel's operator; the border is left out."""
    down = image[2:] - image[:-2]
    right = image[:, 2:] - image[:, :-2]
    x = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    y = right[:-2] + 2 * right[1:-1] + right[2:]
    return xp.sqrt(x * x + y * y)


def main(size=256):
    image = picture(size)
    with vc.Runtime() as gpu:
        result, expected = edges(blurred(gpu.array(image)), vnp), edges(blurred(image), np)
        print("kernels that are left to launch:", vnp.info(result), sep="\n")
        print("equal to numpy:", np.allclose(result.numpy(), expected, atol=1e-5))
        edge = (result > 1).numpy()
        for row in edge[:: max(1, size // 24)]:
            print("".join(".#"[bool(item)] for item in row[:: max(1, size // 48)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Filters a picture on the device, and compares it with NumPy.")
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the picture")
    main(**vars(parser.parse_args()))
