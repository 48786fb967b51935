"""Gravitation among all pairs of bodies, with shared memory and a replayed graph.

    python examples/n_body.py

Symplectic Euler (kick, then drift), with softened gravity (Aarseth 1963), which bounds the forces.
"""

import math

import numpy as np

import vkcompute as vc

TILE = 64  # bodies in shared memory, and invocations per workgroup
SOFTENING = 0.05


@vc.kernel
def kick(position, mass, velocity, seconds):
    """Accelerates each body by the attraction of all. Rows of `position` and `velocity` are x, y and z."""
    x, y, z = vc.shared(TILE, vc.float32), vc.shared(TILE, vc.float32), vc.shared(TILE, vc.float32)
    m = vc.shared(TILE, vc.float32)
    i, local = vc.global_id(0), vc.local_id(0)
    own = min(i, mass.size - 1)  # invocations beyond the last body only help to load
    px, py, pz = position[0, own], position[1, own], position[2, own]
    ax, ay, az = 0.0, 0.0, 0.0
    for start in range(0, mass.size, TILE):
        other = min(start + local, mass.size - 1)
        x[local], y[local], z[local] = position[0, other], position[1, other], position[2, other]
        m[local] = mass[other] if start + local < mass.size else 0
        vc.barrier()
        for k in range(TILE):
            dx, dy, dz = x[k] - px, y[k] - py, z[k] - pz
            square = dx * dx + dy * dy + dz * dz + SOFTENING * SOFTENING
            pull = m[k] / (square * math.sqrt(square))
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        vc.barrier()
    if i < mass.size:
        velocity[0, i] += ax * seconds
        velocity[1, i] += ay * seconds
        velocity[2, i] += az * seconds


@vc.kernel
def drift(position, velocity, seconds):
    i, axis = vc.global_id(0), vc.global_id(1)
    if axis < 3 and i < position.shape[1]:
        position[axis, i] += velocity[axis, i] * seconds


def on_host(position, mass, velocity, seconds, steps):
    """Computes the same with numpy, in float64."""
    position, velocity = position.astype(np.float64), velocity.astype(np.float64)
    for _ in range(steps):
        away = position[:, None, :] - position[:, :, None]
        velocity += (away * mass / ((away**2).sum(0) + SOFTENING**2) ** 1.5).sum(2) * seconds
        position += velocity * seconds
    return position, velocity


def main(n=300, steps=20, seconds=0.01):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(3, n)).astype(np.float32)
    mass = rng.uniform(0.5, 1.5, n).astype(np.float32) / n
    with vc.Runtime() as gpu:
        position, velocity, masses = gpu.array(start), gpu.zeros((3, n)), gpu.array(mass)
        with gpu.record() as step:
            kick[-(-n // TILE), TILE](position, masses, velocity, seconds)
            drift(position, velocity, seconds)
        step.run(times=steps)
        result = position.numpy(), velocity.numpy()
    expected = on_host(start, mass, np.zeros((3, n)), seconds, steps)
    print("equal to numpy:", all(np.allclose(a, b, atol=1e-4) for a, b in zip(result, expected, strict=True)))
    momentum = abs((result[1] * mass).sum(1)).max()
    print(f"momentum is conserved: {momentum:.0e} of {(abs(result[1]) * mass).sum():.2f}")


if __name__ == "__main__":
    main()
