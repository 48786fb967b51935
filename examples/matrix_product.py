"""A matrix product by tiles: a workgroup loads a tile of each matrix into memory that its invocations share.

    python examples/matrix_product.py

Each number in a tile is read T times from there: a T-th of what whole rows and columns would take from the device's.
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
    for start in range(0, inner, T):  # all invocations of a workgroup go through it together, so barriers may be in it
        tile_a[y, x] = 0.0  # beyond the edge there is nothing to add
        tile_b[y, x] = 0.0
        if row < a.shape[0] and start + x < inner:
            tile_a[y, x] = a[row, start + x]
        if start + y < inner and column < b.shape[1]:
            tile_b[y, x] = b[start + y, column]
        vc.barrier()  # the tiles are whole
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]
        vc.barrier()  # nobody reads them any more
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


def main(rows=150, inner=200, columns=100):
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, inner), np.float32), rng.random((inner, columns), np.float32)
    with vc.Runtime() as gpu:
        out = gpu.empty((rows, columns))
        groups = -(-columns // T), -(-rows // T)
        matmul[groups, (T, T)](gpu.tensor(a), gpu.tensor(b), out)
        found = out.numpy()
    print("equal to numpy:", np.allclose(found, a @ b, rtol=inner * np.finfo(np.float32).eps))


if __name__ == "__main__":
    main()
