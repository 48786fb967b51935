"""A program as users write it, for `test_type_checkers.py`; it also runs."""

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp


@vc.kernel
def saxpy(x: vc.float32[:], y: vc.float32[:], out: vc.float32[:], a: vc.float32) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@vc.kernel(check_bounds=True)
def tiled(x: vc.int32[:, :], total: vc.int32[()]) -> None:
    part = vc.shared(64, vc.int32)
    part[vc.local_id(0)] = x[vc.global_id(1), vc.global_id(0)]
    vc.barrier()
    vc.atomic.add(total, (), part[0])


@vc.vectorize
def clipped(x: float, low: float) -> float:
    return max(x, low)


def doubling(a: vc.Array, b: vc.Array) -> None:
    vc.multiply(a, 2, b)


with vc.Runtime("cpu") as gpu:
    x = gpu.array(np.arange(8, dtype=np.float32))
    y = gpu.zeros(8, vc.float32)
    saxpy(x, y, y, 2.0)
    saxpy[1, 64](x, y, y, 2.0)
    scaled = vc.elementwise("a * x")(2.0, x)
    z = clipped(scaled, 1.0) + x * 2 - 1
    total = vc.reduce("a + b", 0)(z, axis=0)
    number = float(total.item())
    product = vc.multiply(x, y)
    on_host = vc.multiply(np.ones(3, np.float32), np.ones(3, np.float32), runtime=gpu)
    print(z.sum().item(), z.mean(), product.shape, on_host.mean(), number, vnp.exp(z)[1:].shape, (x > 2).any(), -x)
    with gpu.record(z=x) as graph:
        vc.multiply(graph["z"], 2.0, graph["z"])
    graph.run(times=2)
    print([device.name for device in vc.devices()])
    gpu.stream(np.ones(10, np.float32), doubling, np.empty(10, np.float32))
    gpu.stream(np.ones(10, np.float32), lambda a, b: vc.multiply(a, 2, b), np.empty(10, np.float32))
    with gpu.profile() as profile:
        saxpy(x, y, y, 2.0)
    print(profile.table())
