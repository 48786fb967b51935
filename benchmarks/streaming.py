"""The multiply of two .npy files into a third: time, and peaks of device memory and anonymous resident memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from context import Cases, Context, run_python
from measure import Case, Contender, WrongResult, compare

TITLE = "streaming multiply of .npy files"
_CHILD = Path(__file__).with_name("stream_once.py")
_PATTERNS = (1_048_573, 1_048_559)  # coprime lengths reveal misplaced chunks
_CHUNK = 1 << 24
_GIB = 1 << 30


def cases(context: Context) -> Cases:
    """One size: the two inputs have `sizes.gib` GiB together, the result half of that."""
    n = int(context.sizes.gib * _GIB) // 8
    files = [context.folder / name for name in ("a.npy", "b.npy", "product.npy")]
    each = f"{4 * n / _GIB:.3g} GiB"
    try:
        _make_inputs(files, n)
        contenders = [Streaming(name, context.target.index, files) for name in ("numpy", "vkcompute")]
        yield Case("streaming", f"multiply of two .npy files of {each} each into a third", "numpy", contenders)
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _make_inputs(files: list[Path], n: int) -> None:
    """Writes both inputs, `n` float32 each, as repeated patterns, which is quick."""
    for path, length in zip(files, _PATTERNS, strict=False):
        pattern = np.random.default_rng(length).random(length, np.float32) + np.float32(0.5)
        array = np.lib.format.open_memmap(path, "w+", np.float32, (n,))
        for start in range(0, n, length):
            array[start : start + length] = pattern[: n - start]
        array.flush()


class Streaming(Contender):
    """A process per run, to measure its memory. Its clock starts after its imports.

    Args:
        device: index of the Vulkan device.
        files: the inputs and their product.
    """

    def __init__(self, name: str, device: int, files: list[Path]) -> None:
        super().__init__(name, loops=1)
        self._command = [str(_CHILD), name, str(device), *map(str, files)]
        self._files = files

    def prepare(self) -> None:
        self.sample(1)

    def sample(self, loops: int) -> float:
        return sum(self._run() for _ in range(loops))

    def _run(self) -> float:
        self._files[2].unlink(missing_ok=True)
        figures = json.loads(run_python(self._command))
        seconds = float(figures.pop("seconds"))
        for name, value in figures.items():
            self.extra[name] = max(value, self.extra.get(name, 0))
        return seconds

    def check(self) -> None:
        a, b, product = (np.load(path, mmap_mode="r") for path in self._files)
        if product.shape != a.shape:
            raise WrongResult(f"a result of shape {product.shape}, not {a.shape}")
        for start in range(0, a.size, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            compare(np.asarray(product[chunk]), a[chunk] * b[chunk])
