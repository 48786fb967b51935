"""`vc.fma`: a product and a sum that a device may round once."""

from __future__ import annotations

from typing import Any

from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import Kind, Number, floating


def _fma(c: Compiler, *args: Any) -> Number:
    kind, _ = c.to_common_type(*args)
    target = floating(kind.type, c.real)
    return Number(c.builder.compute("fma", *[c.cast(each, target) for each in args]), Kind(target, kind.weak))


def fma(x: Any, y: Any, z: Any) -> Any:
    """Returns x * y + z of floats: rounded once where the device has an instruction for it, elsewhere twice.

    It is as fast as the device can be; `x * y + z` rounds twice on every device.
    """
    return x * y + z


register([fma], _fma, 3, folds=True)
