"""The launches that `info` tells, beside those that happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp


def _forked(x: Any) -> Any:
    y = vnp.exp(x)
    return (y + 1).sum(axis=0) * y.max()


EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "in memory": lambda x: x,
    "fused": lambda x: vnp.sin(x) * 2 + x,
    "cheap, several readers": lambda x: [y := x + 1, y * 2 + y][1],
    "reduced": lambda x: ((x - 1) ** 2).mean(),
    "along an axis": lambda x: x.var(axis=0),
    "several axes": lambda x: x.reshape(10, 10, 30).sum(axis=(0, 2)),
    "a result that is used again": lambda x: x - vnp.exp(x).mean(axis=1, keepdims=True),
    "several readers": _forked,
}


def _n_tasks(gpu: vc.Runtime) -> int:
    return sum([queue.task for queue in gpu.scheduler.queues])


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_many_kernels_as_are_launched(unlimited: vc.Runtime, name: str) -> None:
    array = EXPRESSIONS[name](unlimited.array(np.random.default_rng(0).random((100, 30), np.float32)))
    pending, before = array.is_pending, _n_tasks(unlimited)
    result = vnp.info(array)
    assert (array.is_pending, _n_tasks(unlimited)) == (pending, before)
    array.compute()
    assert len(result) == _n_tasks(unlimited) - before
    assert all(item.reason for item in result[:-1])
    assert not result or not result[-1].reason
    assert not vnp.info(array)


def test_bytes_are_counted_once_per_array(gpu: vc.Runtime) -> None:
    x, row = gpu.array(np.ones((20, 30), np.float32)), gpu.array(np.ones(30, np.float32))
    (result,) = vnp.info(x * row.broadcast_to((20, 30)) + x)
    assert result.operations == ("multiply", "add")
    assert (result.nbytes_read, result.nbytes_written) == (2400 + 120, 2400)
    total = vnp.info((x * 2).sum())
    assert (total.nbytes_read - total.nbytes_written, total[-1].nbytes_written) == (2400 - 4, 4)
    assert str(total).splitlines()[0].startswith("1. multiply, add.reduce: reads 2,400 bytes")


def test_functions_are_explained_elsewhere() -> None:
    with pytest.raises(TypeError, match=r"a device array; got function; help\(function\)"):
        vnp.info(vnp.mean)


def test_what_is_broadcast_is_computed_once(gpu: vc.Runtime) -> None:
    x, y = np.random.default_rng(0).random((2, 40, 50), np.float32)
    a, b = gpu.array(x), gpu.array(y[:, :1].copy())
    result = vnp.exp(b) + a
    assert [item.operations for item in vnp.info(result)] == [("exp",), ("add",)]
    np.testing.assert_allclose(result.numpy(), np.exp(y[:, :1]) + x, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "bool", "complex64"])
@pytest.mark.parametrize("exponent", [2, 2.0, True])
def test_a_square_is_no_power(gpu: vc.Runtime, dtype: str, exponent: Any) -> None:
    x = np.arange(-3, 9).astype(dtype)
    try:
        result = gpu.array(x) ** exponent
    except vc.MissingFeature:
        return
    squares = dtype in ("float32", "complex64") or type(exponent) is int
    assert (vnp.info(result)[-1].operations == ("square",)) == (squares and exponent == 2)
    if dtype != "bool":  # whose square is int8, and whose power int64, as NumPy's
        assert result.dtype == vnp.power(gpu.array(x), exponent).dtype
    np.testing.assert_allclose(result.numpy(), x.astype(result.dtype) ** int(exponent), rtol=1e-6)
