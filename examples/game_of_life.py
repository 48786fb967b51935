"""Conway's Game of Life on a torus, with `roll` of arrays: integers, comparisons and masks.

python examples/game_of_life.py --help
"""

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp

GLIDER = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
AROUND = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)]


def generation(cells, xp):
    """Returns the next generation of cells, int32 ones and zeros, by the namespace `xp`: numpy or vkcompute.numpy."""
    neighbours = sum(xp.roll(cells, shift, axis=(0, 1)) for shift in AROUND)
    return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(xp.int32)


def main(size=16, generations=40):
    first = np.zeros((size, size), np.int32)
    first[:3, :3] = GLIDER
    with vc.Runtime() as gpu:
        cells, expected = gpu.array(first), first
        for _ in range(generations):
            cells, expected = generation(cells, vnp), generation(expected, np)
        for row in cells.numpy():
            print("".join(".#"[cell] for cell in row))
        print("equal to numpy:", np.array_equal(cells.numpy(), expected))
        # A glider moves one row and one column in four generations.
        moved = np.roll(first, (generations // 4, generations // 4), axis=(0, 1))
        print("the glider has moved:", generations % 4 == 0 and np.array_equal(cells.numpy(), moved))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs a glider on the device, and compares it with NumPy.")
    parser.add_argument("--size", type=int, default=16, help="rows and columns of the torus")
    parser.add_argument("--generations", type=int, default=40, help="generations, a multiple of 4")
    main(**vars(parser.parse_args()))
