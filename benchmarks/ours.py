"""The multiply by vkcompute: a naive GLSL kernel, and `vkcompute.multiply`."""

from __future__ import annotations

from typing import Any

from peers.work import LOCAL_SIZE, Blocking, Floats, Outcome, windows

import vkcompute as vc

NAIVE = f"""
layout(local_size_x = {LOCAL_SIZE}) in;
layout(set = 0, binding = 0) readonly buffer A {{ float a[]; }};
layout(set = 0, binding = 1) readonly buffer B {{ float b[]; }};
layout(set = 0, binding = 2) writeonly buffer C {{ float c[]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < c.length()) c[i] = a[i] * b[i];
}}
"""


class _OnDevice:
    """Two device arrays, and one for their product."""

    def __init__(self, runtime: vc.Runtime, a: Floats, b: Floats) -> None:
        self._runtime = runtime
        self._a, self._b = runtime.array(a), runtime.array(b)
        self._out = runtime.zeros(a.shape, a.dtype)

    def wait(self) -> None:
        """Waits for all work."""
        self._runtime.wait()

    def result(self) -> Floats:
        """Returns a copy of the product."""
        computed: Floats = self._out.numpy()
        return computed


class Naive(_OnDevice):
    """A kernel with one element per invocation."""

    def __init__(self, runtime: vc.Runtime, a: Floats, b: Floats) -> None:
        super().__init__(runtime, a, b)
        self._kernel = runtime.kernel(vc.glsl(NAIVE))
        arrays = (self._a, self._b, self._out)
        self._launches = [[array[start : start + n] for array in arrays] for start, n in windows(a.size)]

    def enqueue(self) -> None:
        """Launches the kernel once per window."""
        for arrays in self._launches:
            self._kernel(*arrays)


class BuiltIn(_OnDevice):
    """`vkcompute.multiply` of device arrays."""

    def enqueue(self) -> None:
        """Launches the multiply."""
        vc.multiply(self._a, self._b, self._out)


class FromHost(Blocking, Outcome):
    """`vkcompute.multiply` of host arrays, with a new result array."""

    def __init__(self, runtime: vc.Runtime, a: Floats, b: Floats) -> None:
        self._runtime, self._a, self._b = runtime, a, b
        self.out: Any = None

    def enqueue(self) -> None:
        """Streams the arrays through the device."""
        self.out = vc.multiply(self._a, self._b, runtime=self._runtime)
