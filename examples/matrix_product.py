"""A tiled matrix product: each workgroup loads tiles of both matrices into shared memory.

    python examples/matrix_product.py

Each element of a tile is read T times from shared memory, which divides the reads from device memory by T.
"""

import numpy as np

import vkcompute as vc

T = 16  # a tile is T x T, and so is a workgroup


@vc.kernel
def matmul(a, b, out):
    column, row = vc.global_id(0), vc.global_id(1)
    x, y = vc.local_id(0), vc.local_id(1)
    tile_a, tile_b = vc.shared((T, T), vc.float32), vc.shared((T, T), vc.float32)
    inner = a.shape[1]
    total = 0.0
    for start in range(0, inner, T):  # the same iterations in all invocations of a workgroup
        tile_a[y, x] = 0.0  # zero beyond the edges
        tile_b[y, x] = 0.0
        if row < a.shape[0] and start + x < inner:
            tile_a[y, x] = a[row, start + x]
        if start + y < inner and column < b.shape[1]:
            tile_b[y, x] = b[start + y, column]
        vc.barrier()  # the tiles are loaded
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]
        vc.barrier()  # the tiles may be overwritten
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


def main(rows=150, inner=200, columns=100):
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, inner), np.float32), rng.random((inner, columns), np.float32)
    with vc.Runtime() as gpu:
        out = gpu.empty((rows, columns))
        groups = -(-columns // T), -(-rows // T)
        matmul[groups, (T, T)](gpu.array(a), gpu.array(b), out)
        result = out.numpy()
    print("equal to numpy:", np.allclose(result, a @ b, rtol=inner * np.finfo(np.float32).eps))


if __name__ == "__main__":
    main()
