"""Numba's exceptions and warnings."""

from __future__ import annotations

_WORDS = {
    "vc.local(shape, dtype) or [0] * n": "cuda.local.array(shape, dtype)",
    "vc.local(shape, dtype)": "cuda.local.array(shape, dtype)",
    "vc.shared(shape, dtype)": "cuda.shared.array(shape, dtype)",
    "vc.random.uniform(counter, key)": "xoroshiro128p_uniform_float32(states, cuda.grid(1))",
    "vc.barrier()": "cuda.syncthreads()",
    "vc.local_size(axis)": "cuda.blockDim.x",
    "vc.global_id(axis)": "cuda.grid(ndim)",
    "make vectors, as vc.float32x3(x, y, z), or add products": "add products",
    "; see vc.kernel for what is": "; docs/numba.md lists what is",
    "those that help(vc.kernel) lists": "those of math, cuda and NumPy that docs/numba.md lists",
}
"""Words of the language of kernels in errors -> Numba's; longer ones first."""


def in_words_of_numba(text: str) -> str:
    """Returns the text of an error of the language of kernels, with Numba's names in its remedy."""
    for word, numbas in _WORDS.items():
        text = text.replace(word, numbas)
    return text


class NumbaWarning(Warning):
    """Base of Numba's warnings."""


class NumbaPerformanceWarning(NumbaWarning):
    """A launch is slower than it needs to be."""


class NumbaDeprecationWarning(NumbaWarning):
    """A name or an argument is no longer used."""


class NumbaInvalidConfigWarning(NumbaWarning):
    """Options do not fit together."""


class NumbaError(Exception):
    """Base of the errors of compilation; `msg` is the message."""

    def __init__(self, msg: str = "", loc: object = None) -> None:
        super().__init__(msg)
        self.msg, self.loc = msg, loc


class TypingError(NumbaError):
    """A function does something that kernels do not support, with values of these types."""


class UnsupportedError(NumbaError):
    """Kernels do not support something."""


UnsupportedBytecodeError = UnsupportedError


class LoweringError(NumbaError):
    """A function of a supported type cannot be compiled."""


class NumbaTypeError(TypingError):
    """A value has a wrong type."""


class NumbaValueError(TypingError):
    """A value is out of range."""


class RequireLiteralValue(TypingError):
    """A value is not known at compile time."""


class CudaSupportError(RuntimeError):
    """There is no device."""


class CudaAPIError(RuntimeError):
    """A call of the driver failed."""

    def __init__(self, code: int, msg: str) -> None:
        super().__init__(code, msg)
        self.code, self.msg = code, msg

    def __str__(self) -> str:
        return f"[{self.code}] {self.msg}"


class KernelRuntimeError(RuntimeError):
    """A launch failed on the device."""

    def __init__(self, msg: str, tid: object = None, ctaid: object = None) -> None:
        super().__init__(msg)
        self.msg, self.tid, self.ctaid = msg, tid, ctaid


class DeprecationError(Exception):
    """A form of a call that is no longer supported."""
