"""vc.elementwise and vc.vectorize beside numpy: shapes, types, results that are given, graphs, and what is refused."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import vkcompute as vc
from vkcompute.core.quirks import quirks_of

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def promoted(*dtypes: Any) -> np.dtype[Any]:
    """The type of a sum in kernels: numpy's, but that what is no float64 gives float32."""
    result = np.result_type(*dtypes)
    return np.dtype("float32") if result == "float64" and max(np.dtype(d).itemsize for d in dtypes) < 8 else result


def some(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def missing(work: Callable[[], Any]) -> Any:
    """What the work gives, None where the device has no such types."""
    try:
        return work()
    except vc.MissingFeature:
        return None


axpy = vc.elementwise("a * x + y")
weighted = vc.elementwise("(x - y) * z", "x, y, z")


@vc.vectorize
def collatz(n, most=1000):
    """Steps until n is 1."""
    steps = 0
    while n != 1 and steps < most:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@vc.vectorize
def both(x, y):
    if x < y:
        return y - x, True
    return x - y, False


@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=5, max_dims=5).map(
        lambda s: s.input_shapes
    ),
    seed=st.integers(0, 99),
)
def test_shapes_broadcast_as_numpys(gpu: vc.Runtime, shapes: Any, seed: int) -> None:
    arrays = [some(shape, "int32", seed + n) for n, shape in enumerate(shapes)]
    x, y, z = arrays
    result = weighted(*map(gpu.array, arrays))
    np.testing.assert_array_equal(result.numpy(), (x - y) * z)
    assert result.dtype == np.int32


@given(one=st.sampled_from(DTYPES), other=st.sampled_from(DTYPES))
def test_types_promote(gpu: vc.Runtime, one: str, other: str) -> None:
    x, y = some((40,), one), some((40,), other, 1)
    # numpy's `+` of bools is `or`, and kernels refuse it
    expression = "x | y" if one == other == "bool" else "x + y"
    result = missing(lambda: vc.elementwise(expression)(gpu.array(x), gpu.array(y)))
    if result is not None:
        assert result.dtype == promoted(one, other)
        np.testing.assert_array_equal(result.numpy(), (x | y if one == other == "bool" else x + y).astype(result.dtype))


@pytest.mark.parametrize("number", [3, 2.5, True, np.int32(-7), np.uint32(9), np.float32(0.5), -(2**31)])
def test_numbers(gpu: vc.Runtime, number: Any) -> None:
    """Python's take the type of what they meet; numpy's have one."""
    x, y = some((3, 5), "float32"), some((5,), "float32", 1)
    result = axpy(number, gpu.array(x), y=gpu.array(y))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.numpy(), np.float32(number) * x + y, rtol=1e-6)
    if type(number) is int:
        assert vc.elementwise("x + n")(gpu.array(some((4,), "uint32")), 3).dtype == np.uint32


def test_arguments_are_named_in_order_of_appearance_or_as_told(gpu: vc.Runtime) -> None:
    x, y = gpu.array(some((4,), "int32")), gpu.array(some((4,), "int32", 1))
    assert np.array_equal(vc.elementwise("y - x")(x, y).numpy(), x.numpy() - y.numpy())
    assert np.array_equal(vc.elementwise("y - x", "x y")(x, y).numpy(), y.numpy() - x.numpy())
    assert np.array_equal(vc.elementwise("y - x")(x=x, y=y).numpy(), y.numpy() - x.numpy())


def test_arguments_may_be_numbered_as_bessel_functions(gpu: vc.Runtime) -> None:
    x, y = gpu.array([1.0, 2.0]), gpu.array([3.0, 5.0])
    assert vc.elementwise("x0 * y0 + x1 * y1")(x, y, x, y).numpy().tolist() == [6, 20]
    with pytest.raises(vc.KernelError, match="y0 is a function, and cannot be the name of an argument"):
        vc.elementwise("y0(x) + y0")(x, y)


def test_functions_types_and_constants_in_expressions(gpu: vc.Runtime) -> None:
    x = np.linspace(-3, 3, 100, dtype=np.float32)
    for expression, expected in [
        ("sqrt(abs(x)) + exp(-x * x)", np.sqrt(abs(x)) + np.exp(-x * x)),
        ("floor(x) + np.minimum(x, 0.5)", np.floor(x) + np.minimum(x, 0.5)),
        ("where(x > 0, x, 0)", np.maximum(x, 0)),
        ("0 if x < 0 else 1 if x < math.pi / 2\n    else 2", np.digitize(x, [0, math.pi / 2])),
        ("int32(x * 10) % 7", (x * 10).astype(np.int32) % 7),
        ("pow(int32(x), 3) + int32(round(x))", x.astype(np.int32) ** 3 + np.rint(x).astype(np.int32)),
        ("round(x) + round(x, 1)", np.round(x) + np.round(x, 1)),
        ("rint(int32(x)) + 0", np.rint(x.astype(np.int32))),
        ("-1 < x <= 1 and not x == 0", (x > -1) & (x <= 1) & (x != 0)),
    ]:
        if np.asarray(expected).dtype == bool and missing(lambda: gpu_bool(gpu)) is None:
            continue
        result = vc.elementwise(expression)(gpu.array(x)).numpy()
        assert result.dtype.kind == np.asarray(expected).dtype.kind
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def gpu_bool(gpu: vc.Runtime) -> Any:
    return vc.elementwise("x > 0")(gpu.zeros(4))


def test_loops_branches_and_defaults(gpu: vc.Runtime) -> None:
    n = np.arange(1, 200, dtype=np.int32)
    expected = [collatz.__wrapped__(int(item)) for item in n]
    assert collatz(gpu.array(n)).numpy().tolist() == expected
    assert collatz(gpu.array(n), most=5).numpy().tolist() == [min(item, 5) for item in expected]
    assert (collatz.__name__, collatz.__doc__) == ("collatz", "Steps until n is 1.")


def test_several_results(gpu: vc.Runtime) -> None:
    x, y = some((6, 1), "int32"), some((1, 7), "int32", 1)
    quotient, rest = vc.elementwise("x // y, x % y")(gpu.array(x), gpu.array(y + 1))
    assert np.array_equal(quotient.numpy(), x // (y + 1))
    assert np.array_equal(rest.numpy(), x % (y + 1))
    result = missing(lambda: both(gpu.array(x), gpu.array(y)))
    if result:
        assert np.array_equal(result[0].numpy(), abs(x - y))
        assert np.array_equal(result[1].numpy(), x < y)
    outs = gpu.empty((6, 7), np.int32), gpu.empty((6, 7), np.float32)
    vc.elementwise("x + y, x - y")(gpu.array(x), gpu.array(y), out=outs)
    assert np.array_equal(outs[0].numpy(), x + y)
    assert np.array_equal(outs[1].numpy(), (x - y).astype(np.float32))


def test_results_in_the_same_place_are_refused(gpu: vc.Runtime) -> None:
    x, y = gpu.zeros(8), gpu.zeros(24)
    both = vc.elementwise("x + 1, x + 2")
    for outs in ((y[:8], y[:8]), (y[:8], y[4:12]), (y[:16:2], y[:16:2])):
        with pytest.raises(ValueError, match="returns 2 results; two arrays of out overlap"):
            both(x, out=outs)
    both(x, out=(y[:16:2], y[1:17:2]))
    assert y.numpy().tolist() == [1, 2] * 8 + [0] * 8


def test_out(gpu: vc.Runtime) -> None:
    """In place, larger than the arguments are together, and of another type of the same kind."""
    x, y = gpu.array(some((3, 4), "float32")), gpu.array(some((4,), "float32", 1))
    expected = 2 * x.numpy() + y.numpy()
    assert axpy(2, x, y, out=x) is x
    np.testing.assert_allclose(x.numpy(), expected)
    wide = gpu.empty((5, 3, 4))
    axpy(1, x, y, out=wide)
    np.testing.assert_allclose(wide.numpy(), np.broadcast_to(expected + y.numpy(), (5, 3, 4)), rtol=1e-6)
    out = gpu.empty(4, np.int32)
    vc.elementwise("x - 200")(gpu.array(some((4,), "uint32")), out=out)
    assert np.array_equal(out.numpy(), some((4,), "int32") - 200)


def test_results_over_what_is_still_to_be_read(gpu: vc.Runtime) -> None:
    """numpy computes as if all arguments had been read before."""
    data = some((4, 64), "int32")
    whole = gpu.array(data)
    vc.elementwise("x + y")(whole[:3], whole[3], out=whole[1:])
    expected = data.copy()
    np.add(expected[:3], expected[3], out=expected[1:])
    assert np.array_equal(whole.numpy(), expected)
    vc.elementwise("x - y")(whole, whole[0], out=whole)
    np.subtract(expected, expected[0].copy(), out=expected)
    assert np.array_equal(whole.numpy(), expected)


def test_more_groups_than_fit_along_x(gpu: vc.Runtime) -> None:
    x, y = np.arange(5_000_000, dtype=np.int32).reshape(1000, 5000), np.arange(5000, dtype=np.int32)
    assert np.array_equal(weighted(gpu.array(x), gpu.array(y), 3).numpy(), (x - y) * 3)


def test_more_than_the_device_binds(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a binding has 1 MiB at most: in windows, or in halves of arrays that are repeated."""
    monkeypatch.setattr(type(gpu.device), "max_binding_bytes", property(lambda _: 1 << 20))
    x, one = np.arange(1_000_001, dtype=np.int32), np.array([[5]], np.int32)
    array = gpu.array(x)
    assert np.array_equal(weighted(array, gpu.array(one), array).numpy()[0], (x - 5) * x)
    weighted(array, 1, 2, out=array)
    assert np.array_equal(array.numpy(), (x - 1) * 2)
    assert vc.reduce("a + b", 0, map="x ^ y")(array, 7).item() == ((x - 1) * 2 ^ 7).sum(dtype=np.int32)
    x, two = array.numpy(), np.array([[1], [2]], np.int32)
    assert np.array_equal(weighted(array, gpu.array(two), 1).numpy(), x - two)
    assert np.array_equal(weighted(array[::-3], 1, gpu.array(two)).numpy(), (x[::-3] - 1) * two)
    square = np.arange(1 << 20, dtype=np.int32).reshape(1 << 10, -1)
    assert np.array_equal(weighted(gpu.array(square).T, gpu.array(square), 1).numpy(), square.T - square)


FACTOR = 2


@vc.vectorize
def scaled(x):
    return x * FACTOR


def test_constants_from_outside_may_change(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.array(some((5,), "int32"))
    for factor in (2, 5, 2):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert np.array_equal(scaled(x).numpy(), x.numpy() * factor)


def test_closures(gpu: vc.Runtime) -> None:
    def times(n):
        return vc.vectorize(lambda x: x * n + 10)

    made = [times(1), times(2)]
    x = gpu.array(some((5,), "int32"))
    assert np.array_equal(made[1](x).numpy(), x.numpy() * 2 + 10)
    assert np.array_equal(made[0](x).numpy(), x.numpy() + 10)


@vc.vectorize
def thirds(n):
    total = 0
    for i in range(n):
        total += i % 3
    return total


@pytest.mark.parametrize("longest", [60_000, 70_000])
def test_loops_beyond_what_lavapipe_runs(gpu: vc.Runtime, longest: int) -> None:
    """It cuts an invocation's loops after 65,535 iterations: the results cannot be read."""
    n = np.array([5, longest, 40_000, 40_000], np.int32)
    expected = [sum(i % 3 for i in range(item)) for item in n.tolist()]
    limit = quirks_of(gpu.device.physical).max_loop_iterations
    result = thirds(gpu.array(n))
    if limit is not None and longest > limit:
        with pytest.raises(vc.KernelError, match="thirds reaches 65,535 iterations in this loop"):
            result.numpy()
    else:
        assert result.tolist() == expected
    total = vc.reduce(lambda a, b: a + b, 0, map=thirds)(gpu.array(n))
    if limit is None:
        assert total.item() == sum(expected)
    else:  # one invocation runs the loops of all elements
        with pytest.raises(vc.KernelError, match="reaches 65,535 iterations in this loop"):
            total.item()


@vc.kernel
def calls(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = collatz(x[i], most=7) + axpy(x[i], 2, y=x[i]) + lambda_of(x[i])


lambda_of = vc.vectorize(lambda v: scaled(v) + 1)


def test_kernels_and_others_call_them(gpu: vc.Runtime) -> None:
    x = np.arange(1, 50, dtype=np.int32)
    out, simulated = gpu.empty(49, np.int32), np.empty_like(x)
    calls(gpu.array(x), out)
    expected = [collatz.__wrapped__(item, 7) + 3 * item + 2 * item + 1 for item in x.tolist()]
    assert out.tolist() == expected
    calls.simulate(x, simulated)
    assert simulated.tolist() == expected


def test_graphs(clean_handles: None) -> None:
    with vc.Runtime() as runtime:
        record_and_run(runtime)


def record_and_run(gpu: vc.Runtime) -> None:
    x, y = gpu.array(some((3, 4), "float32")), gpu.array(some((4,), "float32", 1))
    with gpu.record(x=x, a=2.0) as step:
        once = axpy(step["a"], step["x"], y)
        axpy(1, once, once, out=once)
    for values in ({}, {"a": 3.0}, {"x": gpu.zeros((3, 4))}):
        step.run(**values)
        a, given_x = values.get("a", 2.0), values.get("x", x).numpy()
        np.testing.assert_allclose(once.numpy(), 2 * (a * given_x + y.numpy()), rtol=1e-6)


def test_threads(gpu: vc.Runtime) -> None:
    cubes = vc.elementwise("x * x * x")
    arrays = [some((n,), "int32", n) for n in range(1, 40)]
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda each: cubes(gpu.array(each)).numpy(), arrays))
    assert all(np.array_equal(a, b**3) for a, b in zip(result, arrays, strict=True))


# (an expression, the message, the text below which the caret stands)
REFUSED = [
    ("a * x +", "this is not an expression", ""),
    ("a * x) + (y", "this is not an expression: unmatched", ") + (y"),
    ("x = y", "this is not an expression", "= y"),
    ("sinn(x)", "kernels have no function sinn; did you mean sin?", "sinn(x)"),
    ("  1 +  f(x)", "kernels have no function f; see vc.kernel", "f(x)"),
    ("__import__('os').system('true')", "kernels have no function __import__", "__import__"),
    ("x & 0.5", "& takes integers; got float32 and a Python float", "x & 0.5"),
    ("x + {0: y}[0]", "a dict; use variables", "{0: y}"),
    ("x + y.size", "float32 has no attribute size that a kernel can use", "y.size"),
    ("x[0] + y", "only arrays, vectors and tuples are indexed; got float32", "x[0]"),
    ("x + sqrt(x, y)", "sqrt takes 1 argument; got 2", "sqrt"),
    ("x + min", "min is a function, and cannot be the name of an argument; rename the argument", "min"),
    ("x, (x, y)", "this must return a number; it returns a tuple of 2", "x, (x"),
    ("None if 1 else x", "this must return a number; it returns nothing", "None"),
    ("x + 5000000000 * uint32(y)", "5000000000 does not fit uint32", "5000000000"),
]


@pytest.mark.parametrize(("expression", "message", "marked"), REFUSED, ids=[item[0] for item in REFUSED])
def test_refused_with_its_place(gpu: vc.Runtime, expression: str, message: str, marked: str) -> None:
    def call():
        made = vc.elementwise(expression)
        made(*[gpu.zeros(4)] * made.__wrapped__.__code__.co_argcount)

    with pytest.raises(vc.KernelError) as refused:
        call()
    first, text, caret = str(refused.value).split("\n")
    assert message in first
    assert text.strip() == " ".join(expression.split())
    assert text[caret.index("^") :].startswith(marked)


def test_errors_in_functions_point_into_them(gpu: vc.Runtime) -> None:
    def inner(v):
        return v & 0.5

    @vc.vectorize
    def outer(x):
        return 1 + inner(x)

    with pytest.raises(vc.KernelError, match=r"& takes integers(?s:.*)v & 0.5(?s:.*)in this call of inner"):
        outer(gpu.zeros(4))


def test_errors_of_calls(gpu: vc.Runtime) -> None:
    x = gpu.zeros((3, 4))
    sums = vc.elementwise("x + y")
    for error, message, args, options in [
        (TypeError, "takes a device array, on which it runs; got none", (1, 2), {}),
        (TypeError, "missing a required argument: 'y'", (x,), {}),
        (TypeError, "takes 2 by position; got 3; pass the others by name, as out=y", (x, 1, x), {}),
        (TypeError, "takes device arrays and numbers; got list for y; copy it to the device", (x, [0] * 4), {}),
        (TypeError, "out is a device array; got ndarray", (x, 1), {"out": np.zeros((3, 4))}),
        (TypeError, "returns float32, and out holds int32; convert", (x, 1), {"out": gpu.zeros((3, 4), np.int32)}),
        (TypeError, "returns 1 results; out has 2", (x, 1), {"out": (x, x)}),
        (ValueError, r"to broadcast; got shapes \(3, 4\), \(3,\)", (x, gpu.zeros(3)), {}),
        (ValueError, r"returns a result of shape \(3, 4\); out has \(4,\)", (x, 1), {"out": gpu.zeros(4)}),
        (ValueError, r"share memory.*\.copy\(\)", (x, 1), {"out": gpu.zeros(1).broadcast_to((3, 4))}),
    ]:
        with pytest.raises(error, match=message):
            sums(*args, **options)
    with pytest.raises(TypeError, match=r"vc\.elementwise takes an expression; got function; use vc\.vectorize"):
        vc.elementwise(test_numbers)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is a function written in Python or an expression; got int"):
        vc.vectorize(3)  # type: ignore[arg-type]
    with pytest.raises(vc.KernelError, match="the arguments are x, y; got x"):
        vc.elementwise("x + y", "x")
    for arguments in (None, "gamma, x"):
        with pytest.raises(
            vc.KernelError, match="gamma is a function, and cannot be the name of an argument; rename the argument"
        ):
            vc.elementwise("gamma * x", arguments)
    with pytest.raises(vc.KernelError, match=r"takes positional-or-keyword parameters only; got \*x"):
        vc.vectorize(lambda *x: 1)


@pytest.mark.pure
def test_made_without_a_driver(run_python: Any) -> None:
    code = "import sys, vkcompute as vc\nvc.elementwise('x + 1'); vc.reduce('a + b', 0)\nprint('vulkan' in sys.modules)"
    assert run_python(code).stdout == "False\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns there; an error says what to do")
def test_lambdas_that_share_a_line(gpu: vc.Runtime) -> None:
    x = gpu.array(some((5,), "int32"))
    # fmt: off
    one, two, three = vc.vectorize(lambda x: x + 1), vc.vectorize(lambda x: (x, 2)[1]), vc.vectorize(lambda x: -(x))
    # fmt: on
    assert np.array_equal(one(x).numpy(), x.numpy() + 1)
    assert two(x).numpy().tolist() == [2] * 5
    assert np.array_equal(three(x).numpy(), -x.numpy())
