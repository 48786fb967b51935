"""Multiplies two arrays on the GPU: host arrays in one line, device arrays, and a recorded graph.

python examples/array_multiply.py
"""

import numpy as np

import vkcompute as vc

a = np.arange(1_000_000, dtype=np.float32)
b = np.full_like(a, 0.5)

# 1. Host arrays of any size are streamed through the device.
assert np.array_equal(vc.multiply(a, b), a * b)
print("vc.multiply(a, b)           equals numpy")

with vc.Runtime() as gpu:
    # 2. Device arrays. Launches are asynchronous; numpy() waits for the result.
    x, y, out = gpu.array(a), gpu.array(b), gpu.empty(a.shape, a.dtype)
    vc.multiply(x, y, out)
    vc.multiply(out, y, out)
    assert np.array_equal(out.numpy(), a * b * b)
    print("device arrays, two launches equal numpy")

    # 3. A graph, recorded once and run three times. Each run multiplies `x` by 2.
    with gpu.record() as doubling:
        vc.multiply(x, 2.0, x)
    doubling.run(times=3)
    assert np.array_equal(x.numpy(), a * 8)
    print("a graph, run three times    equals numpy")
    print(f"on {gpu.device}")
