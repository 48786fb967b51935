"""Wall time of a whole process, from the start of Python to the first result and exit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from context import Cases, Context, run_python
from measure import Case, Contender, Unavailable, compare
from peers import load
from peers.work import Floats

TITLE = "process start to first result"
N = 1000

_NUMPY = """
import sys, numpy as np
a = np.arange({n}, dtype=np.float32)
sys.stdout.buffer.write((a * a).tobytes())
"""
_VKCOMPUTE = """
import sys, numpy as np, vkcompute as vc
with vc.Runtime({index}) as gpu:
    a = gpu.array(np.arange({n}, dtype=np.float32))
    sys.stdout.buffer.write(vc.multiply(a, a).numpy().tobytes())
"""
_PEER = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from peers import Target
from peers.{peer} import Peer
a = np.arange({n}, dtype=np.float32)
program = Peer(Target({index}, {name!r})).resident(a, a)
program.enqueue()
program.wait()
sys.stdout.buffer.write(program.result().tobytes())
sys.stdout.flush()
"""


def cases(context: Context) -> Cases:
    """Warm disk caches; ours with empty caches, too."""
    index, name = context.target.index, context.target.name
    ours = _VKCOMPUTE.format(n=N, index=index)
    bytecode = context.folder / "bytecode"
    folder = str(Path(__file__).resolve().parent)
    contenders: list[Contender] = [
        Process("numpy", _NUMPY.format(n=N), bytecode),
        Process("vkcompute", ours, bytecode),
        Process("vkcompute, empty caches", ours, bytecode, empty_caches=True),
    ]
    for peer in context.peers:
        program = _PEER.format(n=N, index=index, name=name, peer=peer, folder=folder)
        contenders.append(Process(peer, program, bytecode, hint=load(peer).HINT))
    yield Case("start", f"start of Python to the product of {N:,} float32 and exit", "numpy", contenders)


class Process(Contender):
    """A Python program that writes its result as bytes to the end of its standard output.

    Args:
        bytecode: a folder for compiled Python files.
        empty_caches: True to start each run with empty shader caches, ours and Mesa's.
        hint: how to install the program's imports.
    """

    def __init__(self, name: str, program: str, bytecode: Path, *, empty_caches: bool = False, hint: str = "") -> None:
        super().__init__(name, loops=1)
        self._program, self._bytecode, self._empty_caches, self._hint = program, bytecode, empty_caches, hint
        self._output = b""

    def prepare(self) -> None:
        self.sample(1)

    def sample(self, loops: int) -> float:
        return sum(self._run() for _ in range(loops))

    def _run(self) -> float:
        with tempfile.TemporaryDirectory() as folder:
            # Keeps bytecode, as for an installed package, but outside of the checkout.
            caches = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self._bytecode)}
            if self._empty_caches:
                caches |= {"VKCOMPUTE_CACHE_DIR": folder, "MESA_SHADER_CACHE_DIR": folder}
            start = perf_counter()
            try:
                self._output = run_python(["-c", self._program], caches)
            except Unavailable as error:
                if not str(error).startswith("ModuleNotFoundError"):
                    raise
                raise Unavailable(f"not installed ({self._hint}): {error}") from None
            return perf_counter() - start

    def check(self) -> None:
        a = np.arange(N, dtype=np.float32)
        result: Floats = np.frombuffer(self._output[-a.nbytes :], np.float32)
        compare(result, a * a)
