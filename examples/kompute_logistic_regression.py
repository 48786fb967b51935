"""Kompute's second tutorial of 2020, with its imports changed: logistic regression with a shader in Python.

The shader computes each row's contribution to the gradient; the host sums them and updates the weights. The loss has
(1 + y) where the cross-entropy has (1 - y), as in the tutorial; no other result depends on it.
"""

import vkcompute.compat.kp05 as kp
from vkcompute.compat.pyshader import Array, f32, ivec3, python2shader, vec2
from vkcompute.compat.pyshader.stdlib import exp, log


@python2shader
def compute_shader(
    index=("input", "GlobalInvocationId", ivec3),
    x_i=("buffer", 0, Array(f32)),
    x_j=("buffer", 1, Array(f32)),
    y=("buffer", 2, Array(f32)),
    w_in=("buffer", 3, Array(f32)),
    w_out_i=("buffer", 4, Array(f32)),
    w_out_j=("buffer", 5, Array(f32)),
    b_in=("buffer", 6, Array(f32)),
    b_out=("buffer", 7, Array(f32)),
    l_out=("buffer", 8, Array(f32)),
    M=("buffer", 9, Array(f32)),
):
    i = index.x
    m = M[0]

    w_curr = vec2(w_in[0], w_in[1])
    b_curr = b_in[0]
    x_curr = vec2(x_i[i], x_j[i])
    y_curr = y[i]

    z_dot = w_curr @ x_curr
    z = z_dot + b_curr
    y_hat = 1.0 / (1.0 + exp(-z))

    d_z = y_hat - y_curr
    d_w = (1.0 / m) * x_curr * d_z
    d_b = (1.0 / m) * d_z
    loss = -((y_curr * log(y_hat)) + ((1.0 + y_curr) * log(1.0 - y_hat)))

    w_out_i[i] = d_w.x
    w_out_j[i] = d_w.y
    b_out[i] = d_b
    l_out[i] = loss


x_i = kp.Tensor([0.0, 1.0, 1.0, 1.0, 1.0])
x_j = kp.Tensor([0.0, 0.0, 0.0, 1.0, 1.0])
y = kp.Tensor([0.0, 0.0, 0.0, 1.0, 1.0])
w_in = kp.Tensor([0.001, 0.001])
w_out_i = kp.Tensor([0.0] * 5)
w_out_j = kp.Tensor([0.0] * 5)
b_in = kp.Tensor([0.0])
b_out = kp.Tensor([0.0] * 5)
l_out = kp.Tensor([0.0] * 5)
m = kp.Tensor([y.size()])
params = [x_i, x_j, y, w_in, w_out_i, w_out_j, b_in, b_out, l_out, m]

mgr = kp.Manager(0)
mgr.eval_tensor_create_def(params)

sq = mgr.create_sequence()
sq.begin()
sq.record_tensor_sync_device([w_in, b_in])
sq.record_algo_data(params, compute_shader.to_spirv())
sq.record_tensor_sync_local([w_out_i, w_out_j, b_out, l_out])
sq.end()

LEARNING_RATE = 0.1
for _ in range(100):
    sq.eval()
    for j in range(b_out.size()):
        w_in[0] -= LEARNING_RATE * w_out_i.data()[j]
        w_in[1] -= LEARNING_RATE * w_out_j.data()[j]
        b_in[0] -= LEARNING_RATE * b_out.data()[j]

print(f"weights: {w_in[0]:.4f}, {w_in[1]:.4f}; bias: {b_in[0]:.4f}")
print(
    "predicted:",
    [int(w_in[0] * i + w_in[1] * j + b_in[0] > 0) for i, j in zip(x_i, x_j, strict=True)],
    "from",
    y.data(),
)
