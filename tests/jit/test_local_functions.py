"""Functions defined in functions and classes: recursion is refused, and names that Python mangles mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc


def recursive_functions() -> dict[str, Callable[[vc.Array], object]]:
    def power(n):
        return 1 if n <= 1 else n * power(n - 1)

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    countdown = lambda n: 0 if n == 0 else countdown(n - 1)  # noqa: E731

    def combined(a, b):
        return combined(b, a) if a > b else a

    @vc.vectorize
    def vectorized(n):
        return 1 if n <= 1 else vectorized(n - 1)

    def kernel_of(function: Any) -> Callable[[vc.Array], object]:
        @vc.kernel
        def kernel(out, n):
            out[0] = function(n)

        return lambda x: kernel[1, 1](x, 3)

    @vc.kernel
    def launches_itself(out):
        launches_itself(out)

    return {
        "power": kernel_of(power),
        "even": kernel_of(even),
        "countdown": kernel_of(countdown),
        "vectorized": vectorized,
        "combined": vc.reduce(combined, 0),
        "launches_itself": launches_itself[1, 1],
    }


@pytest.mark.parametrize("name", recursive_functions())
def test_recursion_is_refused_where_it_is(gpu: vc.Runtime, name: str) -> None:
    with pytest.raises(vc.KernelError, match=r"kernels have no recursion: write a loop|launches_itself") as raised:
        recursive_functions()[name](gpu.full(1, 3.0))
    assert str(raised.value).startswith(f"{__file__}:")


def test_a_local_kernel_that_names_itself_is_compiled(gpu: vc.Runtime) -> None:
    @vc.kernel
    def kernel(out):
        out[0] = 2 if kernel is not None else 1

    out = gpu.zeros(1)
    kernel[1, 1](out)
    assert out.item() == 2


class _Model:
    __scale = 4.0

    def __init__(self) -> None:
        self.__bias = 2.0

    @staticmethod
    def __third(x: float) -> float:
        return x / 3

    def kernels(self) -> dict[str, tuple[Any, float]]:
        __local = 0.5

        def __twice(x):
            return 2 * x

        @vc.kernel
        def attribute(out):
            out[0] = self.__bias

        @vc.kernel
        def of_class(out):
            out[0] = _Model.__scale + __local

        @vc.kernel
        def called(out):
            __value = __twice(3.0)
            out[0] = __value + _Model.__third(6.0)

        @vc.kernel
        def parameter(out, __p=7.0):
            out[0] = __p

        @vc.kernel
        def nested(out):
            def __inner(__x, __y=1.0):
                return __x + __y

            out[0] = __inner(1.0, __y=4.0) + (lambda __z: __z)(1.0)

        @vc.kernel
        def in_loop(out):
            for __k in range(3):
                out[0] += __k

        return {
            "attribute": (attribute, 2),
            "of_class": (of_class, 4.5),
            "called": (called, 8),
            "parameter": (parameter, 7),
            "nested": (nested, 6),
            "in_loop": (in_loop, 3),
        }

    def formula(self) -> Any:
        return vc.vectorize(lambda x: x * self.__bias + _Model.__scale)


@pytest.mark.parametrize("name", _Model().kernels())
def test_private_names_of_a_class(gpu: vc.Runtime, name: str) -> None:
    kernel, expected = _Model().kernels()[name]
    out, host = gpu.zeros(1), np.zeros(1, np.float32)
    kernel[1, 1](out)
    kernel.simulate[1, 1](host)
    assert out.item() == host[0] == expected


def test_private_names_in_a_lambda(gpu: vc.Runtime) -> None:
    assert _Model().formula()(gpu.full(1, 3.0)).item() == 10
