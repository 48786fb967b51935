"""A kernel in GLSL: saxpy with push constants and specialization constants.

python examples/own_kernel.py
"""

import numpy as np

import vkcompute as vc

SAXPY = """
layout(local_size_x_id = 0) in;                      // chosen below, by constants={0: 64}
layout(constant_id = 1) const bool NEGATE = false;

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Parameters { float a; uint n; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= n) return;
    float value = a * x[i] + y[i];
    result[i] = NEGATE ? -value : value;
}
"""

with vc.Runtime() as gpu:
    rng = np.random.default_rng(0)
    x = gpu.array(rng.random(1000, np.float32))
    y = gpu.array(rng.random(1000, np.float32))
    out = gpu.empty(x.shape, x.dtype)

    spirv = vc.glsl(SAXPY, name="saxpy")  # compiled once, then read from the disk cache
    saxpy = gpu.kernel(spirv, constants={0: 64})
    saxpy(x, y, out, 2.0, x.size)  # arrays by binding, then push constants; the grid covers `out`
    expected = np.float32(2) * x.numpy() + y.numpy()
    print("largest difference from numpy:", np.abs(out.numpy() - expected).max())
    assert np.allclose(out.numpy(), expected)

    negated = gpu.kernel(spirv, constants={0: 64, "NEGATE": True})
    negated(x, y, out, n=x.size, a=2.0)  # push constants by name
    assert np.allclose(out.numpy(), -expected)

    try:
        vc.glsl(SAXPY.replace("a * x[i]", "a * z[i]"), name="saxpy")
    except vc.CompileError as error:
        print("\nAn error shows its line:", error, sep="\n")
