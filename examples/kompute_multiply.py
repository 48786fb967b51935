"""Kompute's first tutorial of 2020, with its imports changed: the product of two arrays."""

import vkcompute.compat.kp05 as kp
import vkcompute.compat.pyshader as ps

mgr = kp.Manager()  # device 0

a = kp.Tensor([2, 2, 2])
b = kp.Tensor([1, 2, 3])
out = kp.Tensor([0, 0, 0])
mgr.eval_tensor_create_def([a, b, out])


@ps.python2shader
def compute_multiply(
    index=("input", "GlobalInvocationId", ps.ivec3),
    data1=("buffer", 0, ps.Array(ps.f32)),
    data2=("buffer", 1, ps.Array(ps.f32)),
    data3=("buffer", 2, ps.Array(ps.f32)),
):
    i = index.x
    data3[i] = data1[i] * data2[i]


mgr.eval_algo_data_def([a, b, out], compute_multiply.to_spirv())
mgr.eval_tensor_sync_local_def([out])
print(a.data(), "*", b.data(), "=", out.data())

# The same with a GLSL shader, evaluated asynchronously and read back by a named sequence.
source = """
    #version 450
    layout (local_size_x = 1) in;
    layout (set = 0, binding = 0) buffer A { float a[]; };
    layout (set = 0, binding = 1) buffer B { float b[]; };
    layout (set = 0, binding = 2) buffer Out { float result[]; };
    void main() {
        uint i = gl_GlobalInvocationID.x;
        result[i] = a[i] * b[i] + 1.0;
    }
"""
mgr.eval_async_algo_str_def([a, b, out], source)
mgr.eval_await_def()

sequence = mgr.create_sequence("read")
sequence.begin()
sequence.record_tensor_sync_local([out])
sequence.end()
sequence.eval()
print("from GLSL, and 1 more:", out.data())
