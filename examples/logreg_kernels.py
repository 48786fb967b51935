"""Logistic regression on five rows by two kernels in Python, recorded once and replayed 100 times.

    python examples/logreg_kernels.py

The built-in `vc.LogisticRegression` trains the same model in logreg_five_rows.py.
"""

import math

import numpy as np

import vkcompute as vc

RATE, ITERATIONS = 0.1, 100


@vc.kernel
def gradients(x_i, x_j, y, weights, products, losses):
    """Computes each row's gradient and loss."""
    row = vc.global_id(0)
    if row < y.size:
        z = weights[0] * x_i[row] + weights[1] * x_j[row] + weights[2]
        p = 1 / (1 + math.exp(-z))
        products[0, row] = (p - y[row]) * x_i[row]
        products[1, row] = (p - y[row]) * x_j[row]
        products[2, row] = p - y[row]
        losses[row] = -y[row] * math.log(p) - (1 - y[row]) * math.log(1 - p)


@vc.kernel
def descend(products, weights, rate):
    """Moves each weight against the mean of its gradient."""
    k = vc.global_id(0)
    if k < weights.size:
        rows = products.shape[1]
        total = 0.0
        for row in range(rows):
            total += products[k, row]
        weights[k] -= rate * total / rows


def main():
    x_i, x_j, y = np.array([[0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]], np.float32)
    with vc.Runtime() as gpu:
        data = [gpu.array(host) for host in (x_i, x_j, y)]
        weights = gpu.array(np.array([0.001, 0.001, 0.0], np.float32))
        products, losses = gpu.empty((3, y.size)), gpu.empty(y.size)
        with gpu.record() as step:
            gradients[1, 64](*data, weights, products, losses)
            descend(products, weights, RATE)  # after `gradients`, whose results it reads
        step.run(times=ITERATIONS)
        result, loss = weights.numpy(), losses.numpy().mean()
    print(f"z = {result[0]:+.6f} x_i {result[1]:+.6f} x_j {result[2]:+.6f}, loss {loss:.6f}")

    # The same in numpy, in float64.
    X, expected = np.stack([x_i, x_j, np.ones(5)], axis=1), np.array([0.001, 0.001, 0.0])
    for _ in range(ITERATIONS):
        expected -= RATE * X.T @ (1 / (1 + np.exp(-X @ expected)) - y) / y.size
    print("equal to numpy:", np.allclose(result, expected, rtol=0, atol=1e-5))
    print("predicted:", (X @ result > 0).astype(int).tolist(), "from", y.astype(int).tolist())


if __name__ == "__main__":
    main()
