"""`raise` and `assert` in kernels, whose exceptions the host raises; on the device and simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc


class OddError(ValueError):
    """An exception of a user."""


def checked(v):
    if v > 90:
        raise OverflowError(f"above 90: {v}")
    return v * 2


@vc.kernel
def checks(x: Any, out: Any, which: int) -> None:
    i = vc.global_id(0)
    if i >= x.size:
        return
    if which == 0:
        assert x[i] >= 0, f"element {i} is {x[i]}"
    if which == 1:
        for k in range(3):
            if x[i] == 30 + k:
                raise OddError("odd", i)
    if which == 2 and x[i] == 7:
        raise IndexError
    if which == 3:
        out[i] = checked(x[i])
        return
    if which == 4:
        assert x[i] != 7
    out[i] = x[i]


@pytest.mark.parametrize(
    ("which", "at", "value", "error", "text"),
    [
        (0, 5, -2, AssertionError, r"element 5 is -2, in invocation \(5, 0, 0\) of checks"),
        (1, 70, 32, ValueError, r"OddError: odd, 70, in invocation \(70, 0, 0\) of checks"),
        (2, 64, 7, IndexError, r": in invocation \(64, 0, 0\) of checks"),
        (3, 99, 95, OverflowError, r"above 90: 95, in invocation \(99, 0, 0\) of checks"),
        (4, 3, 7, AssertionError, r"in invocation \(3, 0, 0\) of checks"),
    ],
)
def test_the_host_raises_the_exception(
    gpu: vc.Runtime, which: int, at: int, value: int, error: type[Exception], text: str
) -> None:
    data = np.full(100, 1, np.int32)
    out = gpu.zeros(100, np.int32)
    checks(gpu.array(data), out, which)
    assert (out.numpy() == (2 if which == 3 else 1)).all(), "nothing fails"
    data[at] = value
    out = gpu.zeros(100, np.int32)
    with pytest.raises(error, match=text) as caught:
        checks(gpu.array(data), out, which).result()
    assert type(caught.value) is error
    assert __file__ in str(caught.value)


@vc.kernel
def barriers(x: Any, out: Any) -> None:
    sums = vc.shared(64, np.int32)
    here = vc.local_id(0)
    assert x[here] < 100
    sums[here] = x[here]
    vc.barrier()
    out[here] = sums[63 - here]


def test_invocations_that_failed_take_part_in_barriers(gpu: vc.Runtime) -> None:
    data = np.arange(64, dtype=np.int32)
    out = gpu.zeros(64, np.int32)
    barriers[1, 64](gpu.array(data), out)
    assert (out.numpy() == data[::-1]).all()
    data[40] = 100
    with pytest.raises(AssertionError, match=r"invocation \(40, 0, 0\)"):
        barriers[1, 64](gpu.array(data), out).result()


def no_exception(x):
    raise x.size


def again(x):
    raise


@pytest.mark.parametrize(
    ("function", "text"), [(no_exception, "raise takes an exception"), (again, "which has no try")]
)
def test_what_cannot_be_raised(gpu: vc.Runtime, function: Any, text: str) -> None:
    with pytest.raises(vc.KernelError, match=text):
        vc.kernel(function)(gpu.zeros(1))


def test_a_simulated_kernel_raises_at_once() -> None:
    """As Python does: the exception itself, from the launch."""
    data, out = np.full(100, 1, np.int32), np.zeros(100, np.int32)
    data[70] = 31
    with pytest.raises(OddError):
        checks.simulate(data, out, 1)
    with pytest.raises(AssertionError):
        barriers.simulate[1, 64](np.full(64, 100, np.int32), out)
