"""Functions by `vc.graph`: their results, in-place updates and random numbers are those of plain calls."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.runtime.graphs.host_arrays import HostArrays


def numbers(gpu: vc.Runtime, *shape: int, seed: int = 0) -> vc.Array:
    return gpu.array(np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32))


@vc.graph
def scaled_sum(x: vc.Array, y: vc.Array, *, scale: float = 2.0, nothing: None = None) -> dict[str, Any]:
    z = x * scale + y
    x += 1
    return {"z": z, "x": x, "rest": (z.T, x[0], z, nothing, 3)}


def test_results_in_tuples_and_dicts(gpu: vc.Runtime) -> None:
    for seed in range(3):
        x, y = numbers(gpu, 4, 5, seed=seed), numbers(gpu, 4, 5, seed=seed + 10)
        before, expected = x.numpy(), x.numpy() * 2 + y.numpy()
        result = scaled_sum(x, y)
        assert result["x"] is x
        np.testing.assert_array_equal(x.numpy(), before + 1)
        np.testing.assert_array_equal(result["z"].numpy(), expected)
        np.testing.assert_array_equal(result["rest"][0].numpy(), expected.T)
        result["rest"][1].fill(7)  # a view of the argument
        assert x[0].numpy().tolist() == [7] * 5
        assert result["rest"][3:] == (None, 3)
    sums = vc.graph(
        lambda x: (x.cumsum(), x[::2].copy(), x[:0])
    )  # some functions allocate memory while they are recorded
    rows = [sums(gpu.full(4, value)) for value in (1.0, 2.0, 3.0)]
    assert [[part.numpy().tolist() for part in parts] for parts in rows] == [
        [[k, 2 * k, 3 * k, 4 * k], [k, k], []] for k in (1, 2, 3)
    ]
    first = scaled_sum(numbers(gpu, 4, 5), y)["z"]
    kept = first.numpy()
    scaled_sum(numbers(gpu, 4, 5, seed=9), y)
    np.testing.assert_array_equal(first.numpy(), kept)
    assert scaled_sum(numbers(gpu, 4, 5), y, scale=-0.5)["z"].numpy().tolist() != kept.tolist()


@dataclasses.dataclass
class Layer:
    weights: Any
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Stack:
    first: Layer
    rest: tuple[Layer, ...] = ()
    bias: Any = None


@vc.kernel
def layered(x: Any, layer: Any, bias: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * layer.weights[i] * layer.scale
        if bias is not None:
            out[i] += bias


@vc.graph
def applied(model: Stack, x: vc.Array) -> Layer:
    y = vnp.empty_like(x)
    for layer in (model.first, *model.rest):
        layered(x, layer, model.bias, y)
        x = y * 1
    return Layer(x, model.first.scale)


def test_dataclasses_are_arguments_and_results(gpu: vc.Runtime) -> None:
    x = numbers(gpu, 5)
    for seed, scale, bias in [(0, 2.0, None), (1, 2.0, None), (1, 3.0, None), (1, 2.0, 5.0), (2, 2.0, 5.0)]:
        w, v = numbers(gpu, 5, seed=seed), numbers(gpu, 5, seed=seed + 1)
        result = applied(Stack(Layer(w, scale), (Layer(v),), bias), x)
        once = x.numpy() * w.numpy() * scale + (bias or 0)
        np.testing.assert_array_equal(result.weights.numpy(), once * v.numpy() + (bias or 0))
        assert result.scale == scale
    kept = vc.graph(lambda model: model)
    model = Stack(Layer(x))
    assert kept(model).first.weights is x


def test_assigned_fields_are_refused(gpu: vc.Runtime) -> None:
    @vc.graph
    def step(layer: Layer) -> None:
        layer.weights = layer.weights * 2

    with pytest.raises(ValueError, match="assigns to the field weights of an argument, a Layer"):
        step(Layer(numbers(gpu, 3)))


SLICES = st.tuples(st.integers(0, 6), st.integers(1, 6), st.sampled_from([1, 2, -1]))
OPERATIONS: list[Callable[[list[Any]], Any]] = [
    lambda a: a[0].__iadd__(a[1][: len(a[0])].sum()),
    lambda a: a[1].__imul__(2),
    lambda a: a.append(a[0] * a[1][0] + a[2][-1]),
    lambda a: a[2].fill(3),
    lambda a: a.append(a[0][::-1]),
    lambda a: a[0].__setitem__(slice(0, 1), a[2][:1] + 1),
    lambda a: a.append(a[-1].cumsum()),
    lambda a: a.append(a[1].reshape(1, -1)[0]),
]


def work(arrays: list[Any], program: tuple[int, ...]) -> tuple[Any, ...]:
    arrays = list(arrays)
    for number in program:
        OPERATIONS[number](arrays)
    return tuple(arrays)


@pytest.mark.rotates
@settings(max_examples=40)
@given(
    views=st.tuples(SLICES, SLICES, SLICES),
    of_one=st.tuples(st.booleans(), st.booleans()),
    program=st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=6).map(tuple),
)
def test_random_functions_of_views_that_overlap(
    gpu: vc.Runtime, views: tuple[Any, ...], of_one: tuple[bool, bool], program: tuple[int, ...]
) -> None:
    graphed = vc.graph(work)
    for turn in range(3):
        hosts = [np.arange(12, dtype=np.float32) + 100 * number + turn for number in range(3)]
        devices = [gpu.array(host) for host in hosts]
        picks = [0, 0 if of_one[0] else 1, 0 if of_one[1] else 2]
        parts = [[of[pick][start : start + n][::step] for pick, (start, n, step) in zip(picks, views, strict=True)]
                 for of in (hosts, devices)]  # fmt: skip
        expected = work(parts[0], program)
        results = graphed(parts[1], program)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result.numpy(), value)
        for device, host in zip(devices, hosts, strict=True):
            np.testing.assert_array_equal(device.numpy(), host)


def test_random_numbers_advance(gpu: vc.Runtime) -> None:
    def draw(rng: Any, x: vc.Array) -> tuple[vc.Array, ...]:
        mask = rng.random(x.shape) < 0.5
        return x * mask, rng.normal(x), rng.integers(0, 100, 5), rng.permutation(6), rng.poisson(3.0, 4), rng.zipf(3, 4)

    graphed, plain = (vnp.random.default_rng(3, device=gpu) for _ in range(2))
    function, x = vc.graph(draw), numbers(gpu, 6)
    for _ in range(3):
        for result, value in zip(function(graphed, x), draw(plain, x), strict=True):
            np.testing.assert_array_equal(result.numpy(), value.numpy())
    assert repr(graphed) == repr(plain)


class Model:
    def __init__(self, gpu: vc.Runtime, seed: int) -> None:
        self.w = numbers(gpu, 3, 3, seed=seed)
        self.rate = 2

    @vc.graph
    def step(self, x: vc.Array) -> vc.Array:
        y = x @ self.w
        self.w += 1
        return y

    @vc.graph
    def replaces(self, x: vc.Array) -> vc.Array:
        self.w = self.w + x
        return self.w


def test_methods_see_what_their_object_has(gpu: vc.Runtime) -> None:
    models, x = [Model(gpu, 1), Model(gpu, 2)], numbers(gpu, 3, 3, seed=5)
    for turn in range(4):
        for model in models:
            if turn == 2:
                model.w = numbers(gpu, 3, 3, seed=8)
            before = model.w.numpy()
            np.testing.assert_array_equal(model.step(x).numpy(), x.numpy() @ before)
            np.testing.assert_array_equal(model.w.numpy(), before + 1)
    reference = weakref.ref(models[0])
    del models, model
    gc.collect()
    assert reference() is None


def test_a_function_that_stores_what_it_computes_is_refused(gpu: vc.Runtime) -> None:
    kept: list[Any] = []

    @vc.graph
    def stores(x: vc.Array) -> vc.Array:
        kept.append(x * 2)
        return x + 1

    with pytest.raises(ValueError, match=r"stores an array of shape \(3, 3\)"):
        stores(numbers(gpu, 3, 3))


def test_nested_calls_and_recordings(gpu: vc.Runtime) -> None:
    double = vc.graph(lambda x: x * 2)

    @vc.graph
    def power(x: vc.Array, n: int) -> vc.Array:
        return power(double(x), n - 1) if n else x

    x = numbers(gpu, 5)
    for _ in range(2):
        np.testing.assert_array_equal(power(x, 3).numpy(), 8 * x.numpy())
    out = gpu.zeros(5)
    with gpu.record() as graph:
        out[...] = double(x)
    x.fill(4)
    graph.run()
    assert out.numpy().tolist() == [8] * 5
    with gpu.record(x=x) as inner:
        inner["x"][...] += 1

    @vc.graph
    def runs(x: vc.Array) -> vc.Array:
        inner.run(2, x=x)
        return x * 10

    for _ in range(2):
        x = gpu.full(5, 3.0)
        assert runs(x).numpy().tolist() == [50] * 5
        assert x.numpy().tolist() == [5] * 5


def test_layouts_types_and_the_default_float_are_parts_of_the_key(gpu: vc.Runtime) -> None:
    half = vc.graph(lambda x: x / 2)
    ints = gpu.array(np.arange(6, dtype=np.int32))
    for x in (ints, ints[::2], ints.reshape(2, 3), ints.reshape(2, 3).T, ints.astype(np.int16), ints[:0]):
        for _ in range(2):
            result = half(x)
            np.testing.assert_array_equal(result.numpy(), x.numpy() / 2)
            assert result.dtype == (x / 2).dtype
    try:
        vnp.set_default_dtype("float64")
        with contextlib.suppress(vc.MissingFeature):  # the device has no float64
            assert (ints / 2).dtype == np.float64
            assert half(ints).dtype == np.float64
    finally:
        vnp.set_default_dtype("float32")


def test_captured_memory_that_an_argument_overlaps(gpu: vc.Runtime) -> None:
    total = gpu.zeros(8)

    @vc.graph
    def adds(x: vc.Array) -> vc.Array:
        total[4:] += x
        return total + x[0]

    for x in (gpu.full(4, 1.0), total[:4], gpu.full(4, 2.0), total[:4]):
        before, part = total.numpy(), x.numpy()
        before[4:] += part
        expected = before + (before[0] if x.buffer is total.buffer else part[0])
        np.testing.assert_array_equal(adds(x).numpy(), expected)
        np.testing.assert_array_equal(total.numpy(), before)


def test_host_reads_name_their_line(gpu: vc.Runtime) -> None:
    @vc.graph
    def reads(x: vc.Array) -> vc.Array:
        return x * float(x.sum())

    line = reads.__wrapped__.__code__.co_firstlineno + 2
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"cannot be recorded.*test_graphed_functions.py, line {line};"):
            reads(numbers(gpu, 3))
    assert gpu.recording() is None


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_leaves_no_recording(gpu: vc.Runtime, error: type[BaseException]) -> None:
    fails = True

    @vc.graph
    def function(x: vc.Array) -> vc.Array:
        x += 1
        if fails:
            raise error
        return x * 2

    x = gpu.zeros(3)
    with pytest.raises(error):
        function(x)
    assert gpu.recording() is None
    fails = False
    assert function(x).numpy().tolist() == [2] * 3
    assert x.numpy().tolist() == [1] * 3


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (np.zeros(3), r"argument 1 is .* of type ndarray.*gpu\.array"),
        ({1, 2}, r"argument 1 is \{1, 2\} of type set.*cannot be hashed.*frozen"),
        (iter([1]), "iterator"),
    ],
    ids=["ndarray", "set", "iterator"],
)
def test_arguments_that_are_refused(gpu: vc.Runtime, argument: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        vc.graph(lambda x, y: x)(numbers(gpu, 3), argument)


def test_other_mistakes(gpu: vc.Runtime) -> None:
    add = vc.graph(lambda x, y: x + y)
    x = numbers(gpu, 3)
    with vc.Runtime("cpu") as other, pytest.raises(ValueError, match="two runtimes"):
        add(x, numbers(other, 3))
    closed = numbers(gpu, 3)
    closed.close()
    with pytest.raises(vc.ClosedError):
        add(x, closed)
    with pytest.raises(TypeError, match="takes a function"):
        vc.graph(3)  # type: ignore[arg-type]

    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generator or a coroutine"):
        vc.graph(generator)


def test_arrays_that_a_function_makes(gpu: vc.Runtime) -> None:
    def made(x: vc.Array) -> tuple[vc.Array, ...]:
        total = vnp.arange(4, dtype=np.float32, device=gpu)
        total += x
        table = gpu.array([1, 2, 3])
        copied = gpu.array(x)
        copied += 1
        return total, table, copied, vnp.eye(2, device=gpu), gpu.full(2, 7), vnp.zeros_like(x) + x

    function = vc.graph(made)
    for seed in range(3):
        x = numbers(gpu, 4, seed=seed)
        for result, value in zip(function(x), made(x), strict=True):
            np.testing.assert_array_equal(result.numpy(), value.numpy())


def test_a_function_without_arguments_runs_where_arrays_are_made(gpu: vc.Runtime) -> None:
    function, held, x = vc.graph(lambda: vnp.ones(3) + 1), vc.graph(lambda: {"x": [x + 1, 2]}), gpu.zeros(2)
    for _ in range(2):
        with vc.Runtime("cpu") as other:
            for _ in range(2):
                result = function()
                assert result.runtime is other
                assert result.numpy().tolist() == [2, 2, 2]
    vc.set_default_runtime(gpu)
    try:
        assert [held()["x"][0].numpy().tolist() for _ in range(2)] == [[1, 1]] * 2
    finally:
        vc.set_default_runtime(None)


def test_recordings_end_with_their_runtime_and_their_function(gpu: vc.Runtime) -> None:
    function = vc.graph(lambda x: x + 1)
    runtime = vc.Runtime("cpu")
    x = numbers(runtime, 3)
    np.testing.assert_array_equal(function(x).numpy(), x.numpy() + 1)
    reference = weakref.ref(runtime)
    runtime.close()
    with pytest.raises(vc.ClosedError):
        function(x)
    argument = numbers(gpu, 3)
    first = weakref.ref(argument.buffer)
    del runtime, x
    gc.collect()
    assert reference() is None
    function(argument)
    del argument
    assert first() is None
    np.testing.assert_array_equal(function(numbers(gpu, 3)).numpy(), numbers(gpu, 3).numpy() + 1)
    held = [gpu.zeros(1 << 16)]
    keeps = vc.graph(lambda x: x + held[0][: x.size])
    keeps(numbers(gpu, 3))
    memory = weakref.ref(held[0].buffer)
    held.clear()
    assert memory() is not None
    del keeps
    gc.collect()
    assert memory() is None


def test_threads_call_one_function(gpu: vc.Runtime) -> None:
    function, wrong = vc.graph(lambda x: (x * 2).cumsum()), []

    def calls(seed: int) -> None:
        for turn in range(10):
            x = numbers(gpu, 64 + turn % 2, seed=seed)
            if not np.array_equal(function(x).numpy(), np.cumsum(x.numpy() * 2)):
                wrong.append((seed, turn))

    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_recording_is_dropped_while_another_thread_is_about_to_replay_it(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that is short drops recordings. Their command buffers are used again once no run has them."""
    upload, x = HostArrays.upload, numbers(gpu, 1 << 16)

    def uploads(self: HostArrays, staging: Any) -> None:
        upload(self, staging)
        thread = threading.Thread(target=drop)
        thread.start()
        thread.join()

    def drop() -> None:
        with gpu.device.lock:
            for release in gpu.device.memory.release_callbacks:
                release()
        gpu.wait()  # destroys what is not in use

    rows = gpu.array(np.array([[3, 0], [1, 2]], np.int32))
    function = vc.graph(lambda x, rows: (x[rows], x.cumsum()))  # reports indices out of bounds to the host
    function(x, rows)
    monkeypatch.setattr(HostArrays, "upload", uploads)
    results = [function(x, rows)[0] for _ in range(12)]  # more than a pool has at first
    for result in results:
        np.testing.assert_array_equal(result.numpy(), x.numpy()[rows.numpy()])


def test_work_of_another_thread_is_recorded_on_demand(gpu: vc.Runtime) -> None:
    @vc.graph
    def function(x: vc.Array) -> vc.Array:
        graph, results = gpu.recording(), []
        assert graph is not None

        def backward() -> None:
            with graph.on_this_thread():
                results.append((x * 3).cumsum())

        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
        return results.pop() + 1

    for seed in range(3):
        x = numbers(gpu, 6, seed=seed)
        np.testing.assert_array_equal(function(x).numpy(), np.cumsum(x.numpy() * 3) + 1)


def test_kernels_and_lazy_arguments(gpu: vc.Runtime) -> None:
    @vc.kernel
    def shift(x: Any, out: Any, k: Any) -> None:
        i = vc.global_id(0)
        if i < out.size:
            out[i] = x[i] + k

    @vc.graph
    def function(x: vc.Array, k: int) -> vc.Array:
        out = vnp.empty_like(x)
        shift(x, out, k)
        return out

    for k in (1, 2, 1):
        x = numbers(gpu, 6, seed=k) * 2
        np.testing.assert_array_equal(function(x, k).numpy(), x.numpy() + k)
    large = gpu.zeros(1 << 18)  # bound from the second call on
    for turn in range(4):
        assert float(function(large, 5).sum().item()) == (5 + turn) * (1 << 18)
        large += 1


def test_clear_drops_the_recordings(gpu: vc.Runtime) -> None:
    calls = []

    @vc.graph
    def function(x: vc.Array) -> vc.Array:
        calls.append(1)
        return x + 1

    for _ in range(3):
        function(numbers(gpu, 3))
    assert len(calls) == 1
    function.clear()
    function(numbers(gpu, 3))
    assert len(calls) == 2


def test_many_numbers_give_a_warning(gpu: vc.Runtime) -> None:
    scaled, x = vc.graph(lambda x, rate: x * rate), gpu.full(3, 2.0)
    for rate in range(7):
        assert scaled(x, float(rate)).numpy().tolist() == [2 * rate] * 3
    with pytest.warns(RuntimeWarning, match=r"8 choices of numbers.*arrays of shape \(\)"):
        scaled(x, 7.0)
    rates = [gpu.array(rate) for rate in (0.5, 0.25)]
    assert [scaled(x, rate)[0].item() for rate in rates] == [1, 0.5]


@pytest.mark.queues
@pytest.mark.parametrize(
    "options", [{"timelines": (2, 1), "staging": True}, {"timelines": (2, 1), "submit_limit_s": 1e-9}],
    ids=["staging", "parts"],
)  # fmt: skip
def test_on_several_queues_and_profiled(options: dict[str, Any]) -> None:
    with open_runtime(**options) as runtime:
        w = runtime.full((8, 8), 0.5)

        @vc.graph
        def step(x: vc.Array) -> tuple[vc.Array, vc.Array]:
            z = x @ w
            x += 1
            w[...] = w * 0.5
            return z, z.cumsum(axis=1)

        for turn in range(4):
            x = numbers(runtime, 8, 8, seed=turn)
            expected, before = x.numpy() @ w.numpy(), w.numpy()
            with runtime.profile() if turn == 2 else contextlib.nullcontext():
                z, sums = step(x)
            np.testing.assert_array_equal(z.numpy(), expected)
            np.testing.assert_array_equal(sums.numpy(), expected.cumsum(axis=1))
            np.testing.assert_array_equal(w.numpy(), before / 2)
            np.testing.assert_array_equal(x.numpy(), numbers(runtime, 8, 8, seed=turn).numpy() + 1)


class _Holder:
    w: vc.Array

    def product(self, x: vc.Array) -> vc.Array:
        return x * self.w


class _Slots:
    __slots__ = ("__weakref__", "w")
    product = _Holder.product


def _by_helper(holder: Any) -> Callable[[vc.Array], vc.Array]:
    def helper(x: vc.Array) -> vc.Array:
        return x * holder.w

    return vc.graph(lambda x: helper(x))


def _by_argument(holder: Any) -> Callable[[vc.Array], vc.Array]:
    return functools.partial(vc.graph(lambda holder, x: holder.product(x)), holder)


PATHS: list[Callable[[Any], Callable[[vc.Array], vc.Array]]] = [
    _by_helper,
    _by_argument,
    lambda holder: vc.graph(functools.partial(type(holder).product, holder)),
    lambda holder: vc.graph(vc.graph(lambda x: holder.product(x))),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", [_Holder, _Slots])
def test_another_array_is_seen_behind_helpers_and_objects(gpu: vc.Runtime, path: Any, kind: Any) -> None:
    holder, x = kind(), gpu.array([1.0, 2.0])
    if kind is _Holder:
        kind.w = gpu.array([2.0, 2.0])  # a class attribute, which one of the object hides later
    else:
        holder.w = gpu.array([2.0, 2.0])
    function = path(holder)
    assert function(x).tolist() == [2, 4]
    holder.w = gpu.array([3.0, 5.0])
    assert function(x).tolist() == [3, 10]


def test_an_attribute_that_hides_one_of_the_class_is_recorded_once(gpu: vc.Runtime) -> None:
    holder, x, recorded = type("Weights", (), {"w": gpu.full(2, 1.0)})(), gpu.array([1.0, 2.0]), []
    holder.w = gpu.array([2.0, 3.0])

    @vc.graph
    def function(x: vc.Array) -> vc.Array:
        recorded.append(1)
        return x * holder.w + type(holder).w

    for _ in range(3):
        assert function(x).tolist() == [3, 7]
    assert len(recorded) == 1


def test_another_array_is_seen_in_modules_and_classes(gpu: vc.Runtime) -> None:
    settings, namespace, x = types.ModuleType("settings"), type("Weights", (), {}), gpu.array([1.0, 2.0])
    code = "def helper(x):\n    return x * settings.w + namespace.w"
    scope: dict[str, Any] = {"settings": settings, "namespace": namespace}
    exec(code, scope)
    function = vc.graph(scope["helper"])
    settings.w, namespace.w = gpu.array([2.0, 2.0]), gpu.array([1.0, 1.0])  # type: ignore[attr-defined]
    assert function(x).tolist() == [3, 5]
    settings.w = gpu.array([3.0, 3.0])  # type: ignore[attr-defined]
    assert function(x).tolist() == [4, 7]
    namespace.w = gpu.array([0.0, 5.0])  # type: ignore[attr-defined]
    assert function(x).tolist() == [3, 11]


@pytest.mark.rotates
def test_another_array_is_seen_behind_many_objects(gpu: vc.Runtime) -> None:
    words, layers = [str(n) for n in range(100_000)], [[n] for n in range(10_000)]
    holder, x = {"words": words, "layers": layers, "w": [gpu.array([2.0, 2.0])]}, gpu.array([1.0, 2.0])
    function = vc.graph(lambda x: x * holder["w"][0] + len(holder["words"]) + len(layers) - 110_000)
    assert function(x).tolist() == [2, 4]
    holder["w"][0] = gpu.array([3.0, 5.0])
    assert function(x).tolist() == [3, 10]
    many = [[n] for n in range(100_000)]
    with pytest.raises(ValueError, match=r"reaches more than 65,536 objects .* pass arrays as arguments"):
        vc.graph(lambda x: x * len(many))(x)
    library = type("Library", (), {"__module__": pytest.__name__, "cached": {"lists": many}})()
    assert vc.graph(lambda x: x * len(library.cached))(x).tolist() == [1, 2]


@dataclasses.dataclass(frozen=True)
class _Options:
    factor: Any


@pytest.mark.parametrize("container", [_Options, lambda x: frozenset([x]), lambda x: {x: None}, lambda x: slice(x, 3)])
def test_constants_that_are_equal_and_differ_have_recordings_of_their_own(gpu: vc.Runtime, container: Any) -> None:
    def factor(options: Any) -> Any:
        if isinstance(options, slice):
            return options.start
        return options.factor if isinstance(options, _Options) else next(iter(options))

    function, x = vc.graph(lambda x, options: x * factor(options)), gpu.array([1, 2], np.int32)
    for number in (0, False, 0.0, -0.0, 1, True, 1.0, np.float32(1)):
        result, expected = function(x, container(number)), x * number
        assert result.dtype == expected.dtype
        assert result.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
@pytest.mark.parametrize("n_kept", [6, 10])
def test_arguments_move_while_a_function_is_recorded_or_replayed(n_kept: int) -> None:
    function = vc.graph(lambda x, y: (vnp.sort(x, axis=1), x + y))
    with open_runtime(memory_limit_bytes=4 << 20) as gpu:
        kept: list[vc.Array] = []
        for seed in range(3):
            x, y = numbers(gpu, 256, 256, seed=seed), numbers(gpu, 256, 256, seed=seed + 10)
            if seed == 1:
                kept = [gpu.full((256, 256), 1.0) for _ in range(n_kept)]
            ordered, total = function(x, y)
            np.testing.assert_array_equal(ordered.numpy(), np.sort(x.numpy(), 1))
            np.testing.assert_array_equal(total.numpy(), x.numpy() + y.numpy())
        assert gpu.memory().spilled
        assert {x.numpy().min() for x in kept} == {1.0}


def test_a_function_that_replaces_what_it_reads_is_refused(gpu: vc.Runtime) -> None:
    """Also one that returns the new array: a replay would read the old one."""
    x, state = gpu.array([1.0, 2.0]), types.SimpleNamespace(w=gpu.array([0.0, 0.0]), v=gpu.array([1.0, 1.0]))
    rows = [gpu.array([0.0, 0.0])]

    def stores(x: vc.Array) -> vc.Array:
        state.w = state.w + x
        return state.w

    def swaps(x: vc.Array) -> vc.Array:
        state.w, state.v = state.v, state.w
        return state.w + x

    def sets_an_item(x: vc.Array) -> vc.Array:
        rows[0] = rows[0] + x
        return rows[0]

    for function in (stores, swaps, sets_an_item):
        with pytest.raises(
            ValueError, match=r"something else in the place of an array of shape \(2,\).*write to the array"
        ):
            vc.graph(function)(x)


class _Layer:
    rate: Any = 2.0

    def __init__(self, gpu: vc.Runtime, value: float) -> None:
        self.w = gpu.full(2, value)


class _Settings:
    scale: Any = 1.0  # of the class, until an object has its own

    def __init__(self, gpu: vc.Runtime) -> None:
        self.layer, self.rates, self.options = _Layer(gpu, 1.0), [1.0, 2.0], {"power": 1}
        self.shift: Any = None
        self.n_calls = 0
        self.mode = "plain"
        self.table = np.array([1, 2], np.float32)

    @property
    def factor(self) -> float:
        return float(self.rates[1]) * _GLOBALS["factor"]

    def plain(self, x: Any) -> Any:
        y = x * self.layer.w * self.layer.rate * self.scale * self.factor + self.rates[0]
        y = y ** self.options["power"] + self.table
        if self.mode == "negative":
            y = -y
        return y if self.shift is None else y + self.shift

    graphed = vc.graph(plain)


_GLOBALS = {"factor": 1.0}


@pytest.mark.filterwarnings("ignore:_Settings.plain is recorded for the 8th time")
def test_other_values_than_arrays_are_seen_as_well(gpu: vc.Runtime) -> None:
    """Numbers, texts, None and objects, wherever the function reads them: a replay would use the old ones."""
    settings, x = _Settings(gpu), gpu.array([1.0, 2.0])

    def check() -> None:
        for _ in range(2):
            np.testing.assert_array_equal(settings.graphed(x).numpy(), settings.plain(x).numpy())

    check()
    for name, value in [
        ("scale", 3.0), ("scale", -0.0), ("scale", 0.0), ("mode", "negative"), ("shift", 5.0),
        ("shift", gpu.full(2, 7.0)),
        ("shift", None), ("rates", [4.0, 5.0]), ("layer", _Layer(gpu, 9.0)), ("options", {"power": 2}),
    ]:  # fmt: skip
        setattr(settings, name, value)
        check()
    settings.rates[0], settings.options["power"], settings.layer.rate = 8.0, 3, 11.0
    check()
    settings.table[1] = 7
    check()
    _GLOBALS["factor"] = 0.5
    check()
    _GLOBALS["factor"] = 1.0
    check()


def test_closures_and_types_of_numbers_are_seen(gpu: vc.Runtime) -> None:
    rate: Any = 1
    recorded = []

    @vc.graph
    def function(x: vc.Array) -> vc.Array:
        recorded.append(1)
        return x * rate

    x = gpu.array([2, 3], np.int32)
    for rate in (1, True, 1.0, np.float32(1), 2, 3.0):
        for _ in range(2):
            result, expected = function(x), x * rate
            assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())
    assert len(recorded) == 6
    rate = float("3.0")  # equal, and another object
    function(x)
    assert len(recorded) == 6


def test_a_number_that_the_function_changes_is_recorded_anew(gpu: vc.Runtime) -> None:
    class Counter:
        n_steps = n_epochs = 0

        def run(self) -> None:
            self.n_epochs += 1  # no matter to `step`, which does not call this

        @vc.graph
        def step(self, x: vc.Array) -> vc.Array:
            recorded.append(1)
            return x * 2

        @vc.graph
        def counts(self, x: vc.Array) -> vc.Array:
            self.n_steps += 1
            return x / self.n_steps

    recorded: list[int] = []
    counter, x = Counter(), gpu.array([2.0, 4.0])
    for _ in range(3):
        counter.run()
        assert counter.step(x).tolist() == [4, 8]
    assert len(recorded) == 1
    for turn in range(1, 8):
        assert counter.counts(x).tolist() == (x / turn).tolist()
    with pytest.warns(RuntimeWarning, match=r"recorded for the 8th time, as 'n_steps' changes.*arrays of shape \(\)"):
        assert counter.counts(x).tolist() == [0.25, 0.5]
    assert counter.counts(x).tolist() == (x / 9).tolist()
