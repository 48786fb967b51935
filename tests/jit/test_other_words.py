"""Words, syntax and constructors of other systems: the error has ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import module
from test_kernel_errors import compiled

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.errors import KernelError

IN_KERNELS = {
    "vc.grid(1)": r"vc has no attribute grid; write vc.global_id\(axis\)",
    "threadIdx.x + blockIdx.x * blockDim.x": r"threadIdx is not defined; write vc.local_id\(axis\)",
    "cuda.gridsize(1)": "cuda is not defined; write vc.global_id",
    "vc.syncthreads()": r"write vc.barrier\(\)",
    "__syncthreads()": r"write vc.barrier\(\)",
    "vc.shfl_down_sync(1, out[0], 1)": "write vc.warp.shuffle_down",
    "__shfl_xor_sync(1, out[0], 1)": "write vc.warp.shuffle_xor",
    "atomicAdd(out, 0, 1)": r"write vc.atomic.add\(array, index, value\)",
    "vc.atomic.cas(out, 0, 1, 2)": "write vc.atomic.compare_exchange",
    "vc.shared.array(3, vc.int32)": "call the function, as shared",
    "vc.program_id(0)": "write vc.group_id",
    "get_global_id(0)": "write vc.global_id",
    "rsqrtf(out[0])": r"write 1 / math.sqrt\(x\)",
    "settings.grid": "Settings has no attribute grid$",
}


@pytest.mark.pure
@pytest.mark.parametrize("expression", IN_KERNELS)
def test_words_in_kernels(expression: str) -> None:
    source = f"""
import numpy as np
import vkcompute as vc
class Settings: pass
settings = Settings()
def kernel(out):
    out[0] = {expression}
"""
    with pytest.raises(KernelError) as raised:
        compiled(module(source).kernel, ("f", 1))
    first = str(raised.value).splitlines()[0]
    assert re.search(IN_KERNELS[expression], first), first


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("z = x + y", r"give the value alone, as 'x \+ y'"),
        ("z += x", "give the value alone"),
        ("x + y;", "give the value alone"),
        ("return x", "without return"),
        ("x > 0 ? x : 0", "write 'a if condition else b'"),
        ("x > 0 && y > 0", "write 'and' and 'or'"),
        ("!x", "write 'not x'"),
        ("2.0f * x", "numbers have no suffix"),
        ("(float) x", r"write a conversion as a call, float32\(x\)"),
        ("rsqrt(x)", r"kernels have no function rsqrt; write 1 / math.sqrt\(x\)"),
    ],
)
def test_syntax_of_c_in_expressions(text: str, remedy: str) -> None:
    with pytest.raises(KernelError, match=remedy):
        vc.elementwise(text)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("work", "error", "remedy"),
    [
        (lambda: vc.asnumpy, AttributeError, r"no attribute 'asnumpy'; write x.numpy\(\)"),
        (lambda: vnp.asnumpy, AttributeError, r"no asnumpy; write x.numpy\(\)"),
        (lambda: vc.ElementwiseKernel, AttributeError, "write vc.elementwise"),
        (lambda: vc.zeros, AttributeError, "write vkcompute.numpy.zeros, or zeros of a runtime"),
        (lambda: vc.syncthreads, AttributeError, r"write vc.barrier\(\) in a kernel"),
        (lambda: vc.nonsense, AttributeError, "no attribute 'nonsense'$"),
        (lambda: vc.Array([1, 2]), TypeError, r"vc.default_runtime\(\).array\(\[1, 2\]\), or of vkcompute.numpy"),
        (lambda: vc.Array(), TypeError, "arrays are made by functions"),
        (lambda: vc.Array(np.zeros(3), dtype=np.dtype(np.int8)), TypeError, "arrays are made by functions"),
        (lambda: vnp.ndarray((2, 3), np.float32), TypeError, "arrays are made by functions"),
        (lambda: vc.Graph([1]), TypeError, "graphs are recorded by a runtime"),
        (lambda: vc.Kernel("x"), TypeError, "kernels are made by vc.kernel"),
    ],
)
def test_words_on_the_host(work: Callable[[], Any], error: type[Exception], remedy: str) -> None:
    with pytest.raises(error, match=remedy):
        work()
