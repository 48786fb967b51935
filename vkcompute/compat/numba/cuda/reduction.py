"""`cuda.reduce`: reductions of arrays by a function of two elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, is_cuda_array
from vkcompute.compat.numba.cuda.dispatcher import Dispatcher, jit
from vkcompute.compat.numba.cuda.factories import device_array, to_device
from vkcompute.compat.numba.cuda.ids import blockIdx, grid, gridsize, threadIdx
from vkcompute.compat.numba.cuda.memory import shared
from vkcompute.compat.numba.cuda.synchronization import syncthreads
from vkcompute.frontend.code_objects import function_of_text

_BLOCK = 128  # which all devices run
_MOST_BLOCKS = 256
_KERNEL = """
def kernel(values, partials, init, is_last):
    parts = shared.array(BLOCK, dtype)
    here, i = threadIdx.x, grid(1)
    if i < values.size:
        parts[here] = values[i]
        for k in range(i + gridsize(1), values.size, gridsize(1)):
            parts[here] = combine(parts[here], values[k])
    syncthreads()
    n = min(BLOCK, values.size - blockIdx.x * BLOCK)
    step = BLOCK // 2
    while step > 0:
        if here + step < n and here < step:
            parts[here] = combine(parts[here], parts[here + step])
        syncthreads()
        step //= 2
    if here == 0:
        if is_last:
            partials[blockIdx.x] = combine(init, parts[0])
        else:
            partials[blockIdx.x] = parts[0]
"""


class Reduce:
    """A reduction by an associative function of two elements."""

    def __init__(self, functor: Any) -> None:
        self._functor = functor if isinstance(functor, Dispatcher) else jit(functor, device=True)
        self._kernels: dict[Any, Any] = {}

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        """Reduces an array with one axis.

        Args:
            arr: of the host or of the device.
            size: the number of elements to reduce, from the first on.
            res: an array of the device for the result, whose first element it becomes; then nothing is returned.
            init: the first operand.
        """
        if arr.ndim != 1:
            raise TypeError("only support 1D array")
        arr = arr if size is None else arr[:size]
        init = arr.dtype.type(init)
        if arr.size < 1:
            return init
        values = arr if is_cuda_array(arr) else to_device(np.ascontiguousarray(arr))
        result = self._reduced(values, init)
        if res is None:
            return result[0]
        res[:1].copy_to_device(result)
        return None

    def _reduced(self, values: Any, init: Any) -> DeviceNDArray:
        """Returns an array with the result, by one launch or two."""
        kernel = self._kernel(values.dtype)
        blocks = min(-(-values.size // _BLOCK), _MOST_BLOCKS)
        partials = device_array(blocks, values.dtype)
        kernel[blocks, _BLOCK](values, partials, init, blocks == 1)
        if blocks == 1:
            return partials
        result = device_array(1, values.dtype)
        kernel[1, _BLOCK](partials, result, init, True)
        return result

    def _kernel(self, dtype: np.dtype[Any]) -> Any:
        if dtype not in self._kernels:
            names = {
                "shared": shared, "threadIdx": threadIdx, "blockIdx": blockIdx, "grid": grid, "gridsize": gridsize,
                "syncthreads": syncthreads, "combine": self._functor, "BLOCK": _BLOCK, "dtype": dtype.type,
            }  # fmt: skip
            self._kernels[dtype] = jit(function_of_text(_KERNEL, "kernel", names))
        return self._kernels[dtype]


reduce = Reduce
