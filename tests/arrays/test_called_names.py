"""Errors begin with the name of the function that was called."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp


def _array(gpu: vc.Runtime) -> vc.Array:
    return gpu.array(np.arange(6, dtype=np.float32).reshape(2, 3))


CALLS: dict[str, Callable[[vc.Array], Any]] = {
    "nansum": lambda x: vnp.nansum(x, axis=5),
    "nanmax": lambda x: vnp.nanmax(x, axis=(0, 0)),
    "append": lambda x: vnp.append(x, x, axis=4),
    "vstack": lambda x: vnp.vstack([x, x[:, :2]]),
    "percentile": lambda x: vnp.percentile(x, [50, 101]),
    "cov": lambda x: vnp.cov(x, fweights=[1.0, 2.0, 3.0]),
    "sum": lambda x: vnp.sum(x, out=3),
    "norm": lambda x: vnp.linalg.norm(x, ord="a", axis=0),
    "fft": lambda x: vnp.fft.fft(x, norm=[1]),
    "zeros": lambda x: vnp.zeros(1.5),
    "partition": lambda x: vnp.partition(x, 9),
    "add": lambda x: vnp.add(x, x, out=3),
    "add.reduce": lambda x: vnp.add.reduce(x, axis=5),
    "add.reduceat": lambda x: vnp.add.reduceat(x, [9]),
    "bitwise_and.reduce": lambda x: vnp.bitwise_and.reduce(x),
    "negative.at": lambda x: vnp.negative.at(None, 1),
    "normal": lambda x: vnp.random.default_rng(0).normal(0, -1.0),
    "chisquare": lambda x: vnp.random.default_rng(0).chisquare(np.inf),
    "noncentral_f": lambda x: vnp.random.default_rng(0).noncentral_f(3.0, np.inf, 1.0),
    "randint": lambda x: vnp.random.randint(5, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_begin_with_the_function_that_was_called(gpu: vc.Runtime, name: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        CALLS[name](_array(gpu))
    text = str(caught.value)
    assert re.match(rf"{re.escape(name)}(:|\(\)| )", text), text
    assert not re.match(rf"{re.escape(name)}: \w+: ", text), text


def test_an_axis_error_keeps_its_class(gpu: vc.Runtime) -> None:
    with pytest.raises(np.exceptions.AxisError, match=r"^nanmean: an array of 2 axes has axes -2 to 1; got 7$"):
        vnp.nanmean(_array(gpu), axis=7)


def test_errors_of_the_users_functions_stay_as_they_are(gpu: vc.Runtime) -> None:
    def function(_: Any) -> Any:
        raise ValueError("sum: of my own")

    with pytest.raises(ValueError, match=r"^sum: of my own$"):
        vnp.apply_along_axis(function, 0, _array(gpu))


def test_parameters_that_are_arrays_are_one_line(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(0, device=gpu)
    for call in (lambda: rng.beta(np.full((3, 2), np.inf), 1.0), lambda: rng.negative_binomial(2.0**60, 0.5, (3, 2))):
        with pytest.raises(ValueError, match=r"^[^\n]*$"):
            call()
