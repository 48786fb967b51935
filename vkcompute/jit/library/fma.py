"""`vc.fma`: a product and a sum that a device may round once."""

from __future__ import annotations

from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import Kind, Number, describe


def _fma(c: Compiler, *args: Any) -> Number:
    kind, numbers = c.to_common_type(*args)
    if kind.type.kind != "f":
        got = ", ".join(map(describe, args))
        raise UnsupportedError(f"fma takes floats; got {got}; write x * y + z, which integers do not round")
    return Number(c.builder.compute("fma", *numbers), Kind(kind.type, kind.weak))


def fma(x: Any, y: Any, z: Any) -> Any:
    """Returns x * y + z of floats: rounded once where the device has an instruction for it, elsewhere twice.

    It is as fast as the device can be; `x * y + z` rounds twice on every device.
    """
    return x * y + z


register([fma], _fma, 3, folds=True)
