"""Kernels of the main module, pickled by value: with what they use, for processes that have another main module."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

TEXT = """
import enum
import math as m
import numpy as np
import vkcompute as vc
from vkcompute import float32x2

class Border(enum.Enum):
    ZERO = 0
    WRAP = 1

SCALE = 3
MODE = Border.WRAP
OPERATIONS = (lambda v: v + 1, lambda v: v * 2)

def even(v):
    return odd(v) if False else helper(v)

def odd(v):
    return even(v)

def helper(v: "vc.int32"):
    result: vc.int32 = OPERATIONS[1](v) * SCALE
    return result if MODE is Border.WRAP else 0

def made(n):
    @vc.kernel(check_bounds=True, print_limit=7)
    def kernel(out: "vc.int32[:]", bias: int = 10):
        i = vc.global_id(0)
        if i < out.size:
            out[i] = even(i) + each(i) + n + bias + int(float32x2(m.sqrt(4.0), 1).x)
    return kernel

kernel = made(100)
each = vc.vectorize(lambda x: helper(x) * 0)
total = vc.reduce(lambda a, b: a + b, 0, map=lambda x: helper(x))

@vc.kernel
def plain(out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = OPERATIONS[1](i) * SCALE + 112

@vc.kernel
def wrong(out):
    out[0] = [1]
"""
EXPECTED = [112, 118, 124]


@pytest.fixture
def main() -> dict[str, Any]:
    """The names of a main module."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    text = TEXT.replace("vc.kernel(", "vc.kernel(source=TEXT, ").replace("@vc.kernel\n", "@vc.kernel(source=TEXT)\n")
    text = text.replace("each = vc.vectorize(lambda x: helper(x) * 0)", "each = lambda x: helper(x) * 0")
    scope["TEXT"] = text = text.replace("total = ", "total = 0 and ")
    exec(text, scope)
    return scope


def again(given: Any) -> Any:
    return pickle.loads(pickle.dumps(given))


def simulated(kernel: Any, *args: Any) -> list[int]:
    out = np.zeros(3, np.int32)
    kernel.simulate(out, *args)
    result: list[int] = out.tolist()
    return result


@pytest.mark.pure
def test_a_kernel_takes_along_what_it_uses(main: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    main |= {"i": threading.Lock(), "out": threading.Lock(), "size": threading.Lock()}  # names of its variables
    monkeypatch.setitem(sys.modules["__main__"].__dict__, "Border", main["Border"])  # classes are found by name
    kernel = main["kernel"]
    loaded = again(kernel)
    assert loaded is not kernel
    assert simulated(loaded) == simulated(kernel) == EXPECTED
    assert simulated(loaded, 11) == [item + 1 for item in EXPECTED]
    assert (loaded._check_bounds, loaded._print_limit, loaded.__name__) == (True, 7, "kernel")
    assert simulated(again(loaded)) == EXPECTED
    assert copy.copy(kernel) is kernel
    assert copy.deepcopy([kernel])[0] is kernel
    out = np.zeros(3, np.int32)
    again(kernel.simulate)(out)
    assert out.tolist() == EXPECTED


@pytest.mark.pure
def test_equal_kernels_are_one_until_something_changes(main: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules["__main__"].__dict__, "Border", main["Border"])
    kernel = main["kernel"]
    first = again(kernel)
    assert again(kernel) is first
    main["SCALE"] = 4
    second = again(kernel)
    assert second is not first
    assert (simulated(first), simulated(second)) == (EXPECTED, [112, 120, 128])
    main["SCALE"] = 3.0
    assert again(kernel) is not first
    main["SCALE"] = np.array(3)  # may change
    assert again(kernel) is not again(kernel)


@pytest.mark.pure
def test_errors_have_the_same_place(main: dict[str, Any]) -> None:
    with pytest.raises(vc.KernelError) as here:
        simulated(main["wrong"])
    with pytest.raises(vc.KernelError) as there:
        simulated(again(main["wrong"]))
    assert str(here.value) == str(there.value)
    assert "out[0] = [1]" in str(here.value)


@pytest.mark.pure
def test_what_cannot_be_pickled_says_so(main: dict[str, Any]) -> None:
    main["SCALE"] = threading.Lock()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(main["kernel"])


LOAD = """
import pickle, sys, numpy
out = numpy.zeros(3, numpy.int32)
for kernel in pickle.load(sys.stdin.buffer):
    kernel.simulate(out)
    print(out.tolist())
"""


@pytest.mark.pure
@pytest.mark.parametrize(("module", "name"), [("pickle", "plain"), ("cloudpickle", "kernel")])
def test_another_process_loads_it(main: dict[str, Any], module: str, name: str) -> None:
    """Cloudpickle, which joblib's loky and Dask use, also takes along classes of the main module."""
    given = pytest.importorskip(module).dumps([main[name]])
    done = subprocess.run([sys.executable, "-c", LOAD], input=given, capture_output=True, check=False)
    assert done.stdout.decode().strip() == str(EXPECTED), done.stderr.decode()


def test_functions_of_arrays(gpu: vc.Runtime, as_main: None) -> None:
    x = gpu.array(np.arange(4, dtype=np.int32))
    for each in (tripled, doubled, vc.elementwise("x * 3")):
        loaded = again(each)
        assert loaded(x).tolist() == each(x).tolist()
        assert again(each) is loaded
    assert again(summed)(x).item() == summed(x).item() == 18


@pytest.fixture
def as_main(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (times, tripled.definition.function, doubled.definition.function, *FUNCTIONS):
        monkeypatch.setattr(function, "__module__", "__main__")


def times(x: Any, n: Any) -> Any:
    return x * n


@vc.vectorize
def tripled(x: Any) -> Any:
    return times(x, 3)


doubled = vc.vectorize(lambda x: times(x, 2))
FUNCTIONS: list[Any] = [lambda a, b: a + b, lambda x: times(x, 3)]
summed = vc.reduce(FUNCTIONS[0], 0, map=FUNCTIONS[1])
