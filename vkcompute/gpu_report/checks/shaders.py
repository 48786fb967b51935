"""Kernels in GLSL: the library's own, which need no compiler here, and one that a compiler of this machine makes."""

from __future__ import annotations

from functools import partial

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.items import Item, Items, Session, equal
from vkcompute.pipelines.multiply import Multiplier

_DTYPES = "float32", "float64", "float16", "uint8", "uint16", "uint32", "uint64", "bool", "int32", "int64"
_SIZES = 1, 1000, 1_000_003
_SOURCE = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform P { uint factor; };
shared uint lines[64];
void main() {
    uint i = gl_GlobalInvocationID.x, here = gl_LocalInvocationID.x;
    lines[here] = i < x.length() ? x[i] : 0;
    barrier();
    if (i < y.length()) y[i] = lines[63 - here] * factor;
}
"""


def items() -> Items:
    """Returns the items by name."""
    by_name: dict[str, Item] = {f"multiply {dtype}": partial(_multiply, dtype) for dtype in _DTYPES}
    return by_name | {"logistic regression": logistic_regression, "compiled here": compiled_here}


def _multiply(dtype: str, session: Session) -> None:
    """Products of two arrays of several lengths, and of a view at an odd offset."""
    multiplier = Multiplier(session.gpu, dtype)
    random = np.random.default_rng(0)
    for n in _SIZES:
        x, y = (random.integers(0, 12, n).astype(dtype) for _ in range(2))
        out = session.gpu.empty(n, dtype)
        multiplier(session.gpu.array(x), session.gpu.array(y), out)
        equal(out, x * y)


def logistic_regression(session: Session) -> None:
    """Training by gradient descent on 4 and on 100 features, which take different shaders."""
    random = np.random.default_rng(1)
    for n_features in (4, 100):
        table = random.normal(size=(2000, n_features)).astype(np.float32)
        labels = table @ random.normal(size=n_features) > 0
        model = vc.LogisticRegression(max_iter=60, device=session.gpu).fit(table, labels)
        share = float(np.mean(np.asarray(model.predict(table)) == labels))
        if share < 0.95:
            raise AssertionError(f"with {n_features} features, {share:.0%} of the rows are classified right")


def compiled_here(session: Session) -> None:
    """A shader with workgroup memory and a push constant, compiled at run time."""
    kernel = session.gpu.kernel(vc.glsl(_SOURCE))  # raises NoCompiler where there is none
    x = np.random.default_rng(2).integers(0, 2**32, 64 * 50, np.uint32)
    out = session.gpu.empty(x.size, np.uint32)
    kernel(session.gpu.array(x), out, 3)
    equal(out, x.reshape(50, 64)[:, ::-1].reshape(-1) * np.uint32(3))
