"""Logistic regression on five rows by two kernels written in Python, recorded once and replayed 100 times.

    python examples/logreg_kernels.py

`vc.LogisticRegression` is the library's own; logreg_five_rows.py trains the same model with it.
"""

import math

import numpy as np

import vkcompute as vc

RATE, ITERATIONS = 0.1, 100


@vc.kernel
def gradients(x_i, x_j, y, weights, parts, losses):
    """What each row adds to the gradient of the mean cross-entropy, and to the loss."""
    row = vc.global_id(0)
    if row < y.size:
        z = weights[0] * x_i[row] + weights[1] * x_j[row] + weights[2]
        p = 1 / (1 + math.exp(-z))
        parts[0, row] = (p - y[row]) * x_i[row]
        parts[1, row] = (p - y[row]) * x_j[row]
        parts[2, row] = p - y[row]
        losses[row] = -y[row] * math.log(p) - (1 - y[row]) * math.log(1 - p)


@vc.kernel
def descend(parts, weights, rate):
    """One step: each weight against the mean of its gradient."""
    k = vc.global_id(0)
    if k < weights.size:
        rows = parts.shape[1]
        total = 0.0
        for row in range(rows):
            total += parts[k, row]
        weights[k] -= rate * total / rows


def main():
    x_i, x_j, y = np.array([[0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]], np.float32)
    with vc.Runtime() as gpu:
        data = [gpu.tensor(each) for each in (x_i, x_j, y)]
        weights = gpu.tensor(np.array([0.001, 0.001, 0.0], np.float32))
        parts, losses = gpu.empty((3, y.size)), gpu.empty(y.size)
        with gpu.record() as step:
            gradients[1, 64](*data, weights, parts, losses)
            descend(parts, weights, RATE)  # waits for `parts`: launches are ordered by the data they touch
        step.run(times=ITERATIONS)
        found, loss = weights.numpy(), losses.numpy().mean()
    print(f"z = {found[0]:+.6f} x_i {found[1]:+.6f} x_j {found[2]:+.6f}, loss {loss:.6f}")

    # The same in numpy, in float64.
    X, expected = np.stack([x_i, x_j, np.ones(5)], axis=1), np.array([0.001, 0.001, 0.0])
    for _ in range(ITERATIONS):
        expected -= RATE * X.T @ (1 / (1 + np.exp(-X @ expected)) - y) / y.size
    print("equal to numpy:", np.allclose(found, expected, rtol=0, atol=1e-5))
    print("predicted:", (X @ found > 0).astype(int).tolist(), "from", y.astype(int).tolist())


if __name__ == "__main__":
    main()
