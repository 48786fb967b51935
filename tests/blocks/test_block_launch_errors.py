"""Launches with wrong arguments, grids and options: errors name the parameter and the remedy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def scaled(x_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * scale, mask=at < n)


@triton.jit
def first_of(x_ptr, VALUES: tl.constexpr):
    tl.store(x_ptr, VALUES[0])


@triton.jit
def typed(x_ptr, NUMBER: tl.constexpr):
    tl.static_assert(isinstance(NUMBER, int))
    tl.store(x_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.arange(0, 4)) + NUMBER)


X = np.arange(8, dtype=np.float32)


def launch(machine: vkcompute.Runtime | None, program: triton.JITFunction, *args: Any, **named: Any) -> Any:
    return (program.interpret if machine is None else program)[(1,)](*args, **named)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], "got a list, which may change; pass a tuple"),
        (([1.0],), "got a list, which may change; pass a tuple"),
        (tl.constexpr([1.0]), "got a list, which may change; pass a tuple"),
        ({0: 1.0}, "got a dict, which may change; pass its values as arguments"),
        (np.ones(2), "got an array, which may change; drop the annotation"),
    ],
)
def test_constants_that_may_change(machine: vkcompute.Runtime | None, value: Any, message: str) -> None:
    rule = "VALUES is a tl.constexpr, for whose value first_of is compiled; "
    for _ in range(2):  # the second launch, too
        with pytest.raises(TypeError) as caught:
            run(machine, first_of, (1,), (X, value))
        assert str(caught.value) == rule + message


def test_a_device_array_is_no_constant(gpu: vkcompute.Runtime) -> None:
    x = gpu.array(X)
    with pytest.raises(
        TypeError, match=r"VALUES is a tl.constexpr.* got an array, which may change; drop the annotation"
    ):
        first_of[(1,)](x, x)


@pytest.mark.parametrize("number", [4, np.int64(4), np.uint8(4), tl.constexpr(np.int32(4))])
def test_numpys_integers_are_constants_as_ints_are(machine: vkcompute.Runtime | None, number: Any) -> None:
    """They take the type of the other operand: int8 here, which wraps."""
    x = np.array([126, 1, 2, 3], np.int8)
    np.testing.assert_array_equal(run(machine, typed, (1,), (x, number))[0], x + np.int8(4))
    block = number if not isinstance(number, tl.constexpr) else 4
    (result,) = run(machine, scaled, (2,), (X, 8, 2.0), BLOCK=block)
    np.testing.assert_array_equal(result, X * 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("x", 2.0), "got str for n; annotate it as n: tl.constexpr"),
        ((tl.float32, 2.0), "got Dtype for n; annotate it as n: tl.constexpr"),
        ((8, {"a": 1}), "got dict for scale; pass a number, or read it in the kernel as a constant"),
        ((8, 2j), "got complex for scale; pass scale.real and scale.imag"),
        ((8, [1.0]), r"got a list for scale; pass tuple\(scale\), an array of its numbers"),
        ((8, np.array(2.0)), r"for scale; pass the number, as scale.item\(\)"),
        ((8, np.ones(2, object)), r"got an array of object for scale; convert it, as scale.astype\(np.float32\)"),
        ((8, np.ones(2, ">i4")), r"got an array of >i4 for scale; convert it, as scale.astype\(np.int32\)"),
    ],
)
def test_wrong_arguments(machine: vkcompute.Runtime | None, args: tuple[Any, ...], message: str) -> None:
    x = X.copy() if machine is None else machine.array(X)
    with pytest.raises(TypeError, match=message):
        launch(machine, scaled, x, *args, BLOCK=8)


@pytest.mark.parametrize("grid", [(0,), (3, 0), lambda meta: (0, meta["BLOCK"])])
def test_an_empty_grid_has_completed(machine: vkcompute.Runtime | None, grid: Any) -> None:
    x = X.copy() if machine is None else machine.array(X)
    future = (scaled.interpret if machine is None else scaled)[grid](x, 8, 2.0, BLOCK=8)
    assert future.done()
    assert future.result() is None
    np.testing.assert_array_equal(x if machine is None else x.numpy(), X)


def test_an_empty_grid_without_device_arrays(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.compiled.launches.current_runtime", lambda: gpu)
    scaled[(0,)](X, 8, 2.0, BLOCK=8).result()
    first_of[(0,)](triton.reinterpret(gpu.array(X), tl.int32), (1,)).result()


def test_wrong_grids(machine: vkcompute.Runtime | None) -> None:
    x = X.copy() if machine is None else machine.array(X)
    program = scaled.interpret if machine is None else scaled
    with pytest.raises(
        KeyError, match=r"the grid of scaled is a function that reads the argument 'BLOCKS'.*mean BLOCK"
    ):
        program[lambda meta: (meta["BLOCKS"],)](x, 8, 2.0, BLOCK=8)
    assert program[lambda meta: (meta.get("OTHER", 1),)](x, 8, 2.0, BLOCK=8).result() is None
    with pytest.raises(KeyError, match=r"^'other'$"):  # of the user's own dict
        program[lambda _: ({}["other"],)](x, 8, 2.0, BLOCK=8)


@pytest.mark.pure
def test_an_interpreted_launch_without_a_grid() -> None:
    with pytest.raises(RuntimeError, match=r"scaled is interpreted on a grid; write scaled.interpret\[grid\]\(…\)"):
        scaled.interpret(X.copy(), 8, 2.0, BLOCK=8)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("options", "package", "message"),
    [
        ({"return_df": True}, "pandas", "return_df=True makes data frames of pandas, .*: pip install pandas"),
        ({"save_path": "plots"}, "matplotlib", r"plots are made by matplotlib, .*: pip install 'vkcompute\[plot\]'"),
    ],
)
def test_optional_packages_are_demanded_before_measurements(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], package: str, message: str
) -> None:
    measured = []
    bench = triton.testing.Benchmark(["n"], [1], "kind", ["a"], ["a"], "bench", {})
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=message):
        triton.testing.perf_report([bench, bench])(lambda **_: measured.append(1)).run(**options)
    assert not measured
