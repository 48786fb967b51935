"""Multiplies two arrays on the GPU, three ways: in one line, on tensors that stay there, and recorded for replay.

python examples/array_multiply.py
"""

import numpy as np

import vkcompute as vc

a = np.arange(1_000_000, dtype=np.float32)
b = np.full_like(a, 0.5)

# 1. Host arrays in, host array out. Larger ones than the device's memory stream through it.
assert np.array_equal(vc.multiply(a, b), a * b)
print("vc.multiply(a, b)           equals numpy")

with vc.Runtime() as gpu:
    # 2. Tensors stay on the device. Launches return at once; numpy() waits for what it needs.
    x, y, out = gpu.tensor(a), gpu.tensor(b), gpu.empty(a.shape, a.dtype)
    vc.multiply(x, y, out)
    vc.multiply(out, y, out)
    assert np.array_equal(out.numpy(), a * b * b)
    print("tensors, two launches       equal numpy")

    # 3. Recorded once, run three times: each run multiplies `x` by 2.
    with gpu.record() as doubling:
        vc.multiply(x, 2.0, x)
    doubling.run(times=3)
    assert np.array_equal(x.numpy(), a * 8)
    print("a graph, run three times    equals numpy")
    print(f"on {gpu.device}")
