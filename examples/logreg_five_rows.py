"""Logistic regression on five rows: 100 iterations at learning rate 0.1, from weights of 0.001.

python examples/logreg_five_rows.py
"""

import numpy as np

import vkcompute as vc

x_i = [0, 1, 1, 1, 1]
x_j = [0, 0, 0, 1, 1]
y = [0, 0, 0, 1, 1]
X = np.stack([x_i, x_j], axis=1)

with vc.Runtime() as gpu:
    model = vc.LogisticRegression(None, solver="gradient", learning_rate=0.1, max_iter=100, tol=None, device=gpu)
    model.fit(X, y, coef_init=[0.001, 0.001], intercept_init=0.0)
    print(f"trained on {gpu.device}")

print(f"z = {model.coef_[0, 0]:+.6f} x_i {model.coef_[0, 1]:+.6f} x_j {model.intercept_[0]:+.6f}")
print(f"loss {model.loss_curve_[0]:.6f} -> {model.loss_curve_[-1]:.6f} in {model.n_iter_[0]} iterations")

# The same in numpy, in float64.
weights, intercept = np.array([0.001, 0.001]), 0.0
for _ in range(100):
    residual = 1 / (1 + np.exp(-(X @ weights + intercept))) - y
    weights, intercept = weights - 0.1 * X.T @ residual / len(y), intercept - 0.1 * residual.mean()
difference = max(abs(model.coef_[0] - weights).max(), abs(model.intercept_[0] - intercept))
assert difference < 1e-5
print(f"largest difference from numpy: {difference:.0e}")

print("row  y  predicted  probability of 1")
for row, (label, predicted, p) in enumerate(zip(y, model.predict(X), model.predict_proba(X)[:, 1], strict=True)):
    print(f"{row:3}  {label}  {predicted:9}  {p:16.3f}")
