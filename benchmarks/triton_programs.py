"""Block programs in Triton's language: the host's time for a launch, for compilation, and for reading from the disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from context import Cases, Context
from measure import Case, HostArray, Local
from peers.work import pair, product
from python_kernels import Compiler

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.blocks.launching.build import FOLDERS, ArrayType, BlockOptions, IntType, specialize
from vkcompute.code_version import code_version
from vkcompute.compiled.cache import Specializations
from vkcompute.compiled.specialization import CompileOptions, Specialization
from vkcompute.compiled.target import target_of
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.tile.device import block_target

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

import triton_matmul
import triton_softmax

TITLE = "block programs in Triton's language"
N, BLOCK = 1024, 256
_BURST, _LOOPS = 32, 320  # launches between untimed waits, minimum launches per sample
_ARRAY, _INT = ArrayType("f", is_view=False, is_wide=True), IntType("int32", 16)
_N_WARPS = 4


@triton.jit
def multiply(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Multiplies two arrays."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(a_ptr + at, mask=mask) * tl.load(b_ptr + at, mask=mask), mask=mask)


def cases(context: Context) -> Cases:
    """The host's time for a launch and for compilation."""
    launch = Local("vkcompute", partial(Launched, context.runtime), partial(product, N), burst=_BURST, loops=_LOOPS)
    title = f"launch with three arrays, a number and a constant, enqueued {_BURST} at a time"
    yield Case("triton.launch", title, "vkcompute", [launch])
    softmax = triton_softmax.softmax_kernel, (_ARRAY, _ARRAY, _INT, _INT), {"BLOCK_SIZE": 1024}
    tiles = {"BM": 32, "BN": 32, "BK": 16, "GROUP": 4, "ACTIVATION": "leaky_relu"}
    matmul = triton_matmul.matmul_kernel, (_ARRAY, _ARRAY, _ARRAY, _INT, _INT, _INT), tiles
    for name, given in (("softmax", softmax), ("matmul", matmul)):
        compiled = partial(_compiled, context.runtime, *given)
        words = partial(_words, compiled)
        makers = {"compiled": compiled, "from the disk": partial(_from_the_disk, context.runtime, *given)}
        programs = [Local(key, partial(Compiler, make), words) for key, make in makers.items()]
        yield Case(f"triton.{name}", f"{name} of the tutorials to SPIR-V", "compiled", programs)


class Launched:
    """The program with its arrays."""

    def __init__(self, runtime: vc.Runtime) -> None:
        a, b = (runtime.array(host) for host in pair(N))
        self._out = runtime.empty(N, np.float32)
        self._launch = partial(multiply[(N // BLOCK,)], a, b, self._out, N, BLOCK=BLOCK)

    def wait(self) -> None:
        """Waits for the last launch."""
        self._future.result()

    def enqueue(self) -> None:
        """Launches the program."""
        self._future = self._launch()

    def result(self) -> HostArray:
        """Runs a launch, and returns its result."""
        self.enqueue()
        return self._out.numpy()


def _options(runtime: vc.Runtime) -> BlockOptions:
    return BlockOptions(_N_WARPS, block_target(runtime), CompileOptions(target=target_of(runtime)))


def _numbered(signature: tuple[Any, ...], constants: dict[str, Any]) -> tuple[dict[int, Any], dict[int, Any]]:
    return dict(enumerate(constants.values(), len(signature))), dict(enumerate(signature))


def _compiled(
    runtime: vc.Runtime, program: triton.JITFunction, signature: tuple[Any, ...], constants: dict[str, Any]
) -> Specialization:
    return specialize(program.definition, *_numbered(signature, constants), _options(runtime))


def _from_the_disk(
    runtime: vc.Runtime, program: triton.JITFunction, signature: tuple[Any, ...], constants: dict[str, Any]
) -> Specialization:
    """Finds the program as a new process does, once per program; its file is read once for all of them."""
    given = program.definition.function
    function = FunctionType(given.__code__, given.__globals__, given.__name__)
    triton.jit(function)
    values, kinds = _numbered(signature, constants)
    known = Specializations(PythonOrigin([function]), "blocks", code_version(*FOLDERS), repr(sorted(values.items())))
    key = tuple(kinds.items()), _options(runtime)
    return known.find(key, lambda *_: _compiled(runtime, program, signature, constants))


def _words(make: Callable[[], Specialization]) -> HostArray:
    return np.frombuffer(make().spirv, np.uint32)
