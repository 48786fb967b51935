"""Simulated kernels: what is found that a device would let pass, and what one who looks on sees."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from oracle import module

import vkcompute as vc
from vkcompute.errors import KernelError

GROUP = 4
HEAD = """
import numpy as np
import vkcompute as vc
def add(array, i, value):
    array[i] += value
def kernel(x, out):
    tile = vc.shared((2, 4), vc.int32)
    i, here, group = vc.global_id(0), vc.local_id(0), vc.group_id(0)
    {}
"""

# (statements of a kernel of x and out, two workgroups of four, 8 int32 each; what is found; who; what stands there)
FOUND = [
    ("out[i + 1] = 0", "out[8] is out of bounds: out has the shape (8,)", 7, "out[i + 1]"),
    ("out[i] = x[i - 1]", "x[-1] is out of bounds: x has the shape (8,)", 0, "x[i - 1]"),
    ("out[i] = x[-i]", "x[-1] is out of bounds", 1, "x[-i]"),
    ("tile[here // 3, here] = 1; tile[2 - here, 0] = 1", "tile[2, 0] is out of bounds: tile has the shape (2, 4)", 0,
     "tile[2 - here, 0]"),
    ("vc.atomic_add(out, i * 2, 1)", "out[8] is out of bounds", 4, "vc.atomic_add"),
    ("add(out, i + 5, 1)", "out[8] is out of bounds", 3, "array[i]"),
    ("out[i] = tile[0, here]", "tile[0, 0] is read, and no invocation of the workgroup has written it", 0, "tile["),
    ("vc.atomic_add(tile, (1, 2), 1)", "tile[1, 2] is read, and no invocation", 0, "vc.atomic_add"),
    ("if group == 0: tile[0, here] = 1\n    else: out[i] = tile[0, here]", "tile[0, 0] is read", 4, "tile[0, here]"),
    ("out[0] = i", "a race: this writes out[0], which invocation (0, 0, 0) wrote at {}:9 with nothing", 1, "out[0]"),
    ("out[group] += 1", "a race: this reads out[0], which invocation (0, 0, 0) wrote", 1, "out[group]"),
    ("out[i] = x[here]; x[i] = 0", "a race: this reads x[0], which invocation (0, 0, 0) wrote", 4, "x[here]"),
    ("out[i] = x[i ^ 1]; x[i] = 0", "a race: this reads x[0], which invocation (0, 0, 0) wrote", 1, "x[i ^ 1]"),
    ("out[i] = x[7]\n    if i == 6: x[7] = 1", "a race: this writes x[7], which invocation (5, 0, 0) read at {}:9", 6,
     "x[7] = 1"),
    ("out[i] = x[7 - i]; vc.barrier(); x[i] = 1",
     "at {}:9 with nothing that orders the two; workgroups run in no order", 4, "x[7 - i]"),
    ("tile[0, here] = i; out[i] = tile[0, here ^ 1]", "tile[0, 1] is read, and no", 0, "tile[0, here ^ 1]"),
    ("tile[0, here] = i\n    vc.barrier()\n    out[i] = tile[0, here ^ 1]\n    tile[0, here] = 0",
     "a race: this reads tile[0, 0], which invocation (0, 0, 0) wrote at {}:12", 1, "tile[0, here ^ 1]"),
    ("vc.atomic_add(out, 0, 1); x[i] = out[0]",
     "changes (atomically) out[0], which invocation (0, 0, 0) read", 1, "vc.atomic_add"),
    ("if i == 6: out[0] = 1\n    vc.atomic_max(out, here, 1)",
     "out[0], which invocation (4, 0, 0) changed (atomically)", 6, "out[0]"),
    ("if here < 2: vc.barrier()", "invocation (2, 0, 0) of the same workgroup has ended", 0, "vc.barrier()"),
    ("if i == 5: return\n    vc.barrier()", "invocation (5, 0, 0) of the same workgroup has ended", 4, "vc.barrier()"),
    ("if here == 3:\n        vc.barrier()\n    else:\n        vc.barrier()",
     "(0, 0, 0) of the same workgroup waits at {}:12", 3, "vc.barrier()"),
    ("for _ in range(here // 3 + 1): vc.barrier()", "invocation (0, 0, 0) of the same workgroup has ended", 3,
     "vc.barrier()"),
    ("out[i] = 7 // (i - 5)", "7 is divided by zero, which for integers is undefined", 5, "7 // (i - 5)"),
    ("out[i] = 7 % (i - 5)", "7 is divided by zero", 5, "7 % (i - 5)"),
    ("out[i] = (-2147483647 - 1) // (i - 1)", "-2147483648 // -1 does not fit int32", 0, "(-2147483647"),
    ("out[i] = int(1e9 * i)", "3000000000.0 does not fit int32", 3, "int("),
    ("out[i] = np.uint32(1.5 - i)", "-1.5 does not fit uint32", 3,
     "np.uint32("),
]  # fmt: skip

# Statements that look like it, and are none of these.
NOT_FOUND = [
    "out[7 - i] = x[-1] + x[7 - i]",
    "out[i] += 1; out[i] *= out[i]; x[i] = out[i]",
    "vc.atomic_add(out, 0, 1); vc.atomic_max(out, 0, i)",
    "if i > 0: out[i] = x[0] + x[1]",
    "tile[0, here] = i; vc.barrier(); out[i] = tile[0, 3 - here]; vc.barrier(); tile[0, here] = 0",
    "out[i] = 0; vc.barrier(); x[i] = out[i ^ 3]; vc.barrier(); out[i ^ 1] = x[i]",
    "if here == 0: tile[1, 1] = 3\n    vc.barrier()\n    vc.atomic_add(tile, (1, 1), i)",
    "for k in range(group + 1):\n        if k < 1: vc.barrier()\n        else: vc.barrier()",
    "if x[group] < 3: vc.barrier()",
    "add(out, i, 3)",
    "out[i] = 3**i",
]


def kernel_of(statements: str) -> tuple[Any, str]:
    """A kernel, and the file that it is in."""
    function = module(HEAD.format(statements))["kernel"]
    return vc.kernel(function), function.__code__.co_filename


@pytest.mark.pure
@pytest.mark.parametrize(("statements", "message", "who", "at"), FOUND, ids=[each[0] for each in FOUND])
def test_what_is_found(statements: str, message: str, who: int, at: str) -> None:
    kernel, file = kernel_of(statements)
    with pytest.raises(KernelError) as raised:
        kernel.simulate[2, GROUP](np.zeros(8, np.int32), np.zeros(8, np.int32))
    first, text, caret, *more = str(raised.value).split("\n")
    who_at = r"kernel, invocation \((\d), 0, 0\) of workgroup \((\d), 0, 0\): "
    place = re.match(rf"{re.escape(file)}:(\d+):(\d+): {who_at}", first)
    assert place is not None, first
    assert (int(place[3]), int(place[4])) == (who, who // GROUP), first
    assert message.format(file) in first
    assert caret.strip() == "^"
    if sys.version_info >= (3, 11):
        assert text[caret.index("^") :].startswith(at), str(raised.value)
    assert any("in this call of add" in line for line in more) == statements.startswith("add")


@pytest.mark.pure
@pytest.mark.parametrize("statements", NOT_FOUND)
def test_what_is_allowed(statements: str) -> None:
    kernel, _ = kernel_of(statements)
    kernel.simulate[2, GROUP](np.zeros(8, np.int32), np.zeros(8, np.int32))
