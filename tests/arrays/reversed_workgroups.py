"""A program whose kernels run with the numbers of workgroups reversed: what starts first works on the last elements.

python tests/arrays/reversed_workgroups.py cpu|gpu

The argument is the kind of device for which algorithms are tuned. The disk cache must be empty, as it does not know of
the order.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import rows, segments
from vkcompute.ir import UINT32, lowering
from vkcompute.jit.library import atomic
from vkcompute.runtime import tuning
from vkcompute.spirv import opcodes as spv

_load = lowering._Lowering._load_builtins


def _load_reversed(self: Any, ops: Any) -> None:
    """Loads built-in inputs, with the workgroups of each axis in reverse order."""
    names = {op.attribute for op in ops if op.code == "builtin"}
    axes = sorted({axis for name, axis in names if name in ("group_id", "global_id")})
    needed = [SimpleNamespace(code="builtin", attribute=(n, axis)) for n in ("group_id", "n_groups") for axis in axes]
    _load(self, [*ops, *needed])
    out, known = self._out, self._builtins
    for axis in axes:
        group = known["group_id", axis]
        last = out.value(spv.OpISub, UINT32, known["n_groups", axis], out.uint(1))
        known["group_id", axis] = other = out.value(spv.OpISub, UINT32, last, group)
        if ("global_id", axis) in known:
            groups = out.value(spv.OpISub, UINT32, other, group)
            moved = out.value(spv.OpIMul, UINT32, groups, out.uint(self._function.local_size[axis]))
            known["global_id", axis] = out.value(spv.OpIAdd, UINT32, known["global_id", axis], moved)


lowering._Lowering._load_builtins = _load_reversed  # type: ignore[method-assign]


@vc.kernel
def started(counter: Any, order: Any) -> None:
    """Stores the numbers of workgroups in the order in which they start."""
    if vc.local_id(0) == 0:
        order[atomic.add(counter, 0, 1)] = vc.group_id(0)


def main(kind: str) -> None:
    """Compares results with NumPy's, and prints the order in which workgroups start."""
    if kind == "gpu":
        tuning.ON_CPU = tuning.ON_GPU
    order = vnp.zeros(64, np.int32)
    started[64, 64](vnp.zeros(1, np.int32), order)
    print(*order.numpy())
    rng = np.random.default_rng(0)
    x, few = rng.random(100_003, np.float32), rng.integers(0, 50, 100_003).astype(np.int32)
    device, ints = vnp.asarray(x), vnp.asarray(few)
    same = np.testing.assert_array_equal
    same(vnp.sort(device).numpy(), np.sort(x))
    same(vnp.argsort(ints).numpy(), np.argsort(few, kind="stable"))
    same(vnp.cumsum(ints).numpy(), np.cumsum(few))
    same(vnp.unique(ints).numpy(), np.unique(few))
    same(vnp.nonzero(ints > 20)[0].numpy(), np.nonzero(few > 20)[0])
    same(vnp.topk(device, 300)[0].numpy(), np.sort(x)[:-301:-1])
    same(vnp.partition(device, 5000).numpy()[5000], np.partition(x, 5000)[5000])
    assert int(vnp.argmin(device)) == x.argmin()
    same(rows.group(ints).sum(ints).numpy().sum(), few.sum())
    same(segments.scan(ints, [0, 70_000, few.size]).numpy()[-1], few[70_000:].sum())


if __name__ == "__main__":
    main(sys.argv[1])
