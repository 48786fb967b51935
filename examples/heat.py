"""Heat in a plate with cold edges, by slices of arrays: each step is one kernel, as its operations are fused.

    python examples/heat.py --help

Explicit Euler steps of the heat equation, with the 5-point Laplacian; stable up to a rate of 1/4.
"""

import argparse

import numpy as np

import vkcompute as vc

RATE = 0.2  # diffusivity * step in time / (step in space)**2


def warm(u, steps):
    """Advances the temperatures in `u`, a NumPy array or a device array, in place."""
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = inner + RATE * (around - 4 * inner)
    return u


def main(size=64, steps=50):
    plate = np.zeros((size, size), np.float32)
    plate[size // 4 : size // 2, size // 4 : size // 2] = 100
    with vc.Runtime() as gpu:
        result = warm(gpu.array(plate), steps)
        print(f"{float(result.mean()):.3f} degrees on average after {steps} steps, {float(result.max()):.3f} at most")
        print("equal to numpy:", np.allclose(result.numpy(), warm(plate, steps), atol=1e-3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Computes heat in a plate on the device, and compares it with NumPy.")
    parser.add_argument("--size", type=int, default=64, help="rows and columns of the plate")
    parser.add_argument("--steps", type=int, default=50, help="steps in time")
    main(**vars(parser.parse_args()))
