"""Draws scheduling.png: the training of a logistic regression, with a transfer queue.

python docs/trace.py [FILE]
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

import vkcompute as vc
from vkcompute.core.device_profile import emulated

matplotlib.use("Agg")
target = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("scheduling.png")
rng = np.random.default_rng(0)
X = rng.standard_normal((100_000, 10), np.float32)
y = X @ rng.standard_normal(10) > 0

with emulated(timelines=(1, 1), staging=True), vc.Runtime() as gpu:
    model = vc.LogisticRegression(solver="gradient", max_iter=60, tol=None, device=gpu)
    model.fit(X, y)  # not profiled: compiles the kernels
    with gpu.profile() as profile:
        model.fit(X, y)

print(profile.table())
profile.plot().savefig(target, dpi=90)
