"""A launch that looks like one before is made from what was kept of it; whatever differs has to be seen."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core.lifetime import live_counts

SCALE = 1


@vc.kernel
def scaled(x: Any, out: Any, factor: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * factor * SCALE


@vc.kernel
def numbered(out: Any, first: Any) -> None:
    i, j = vc.global_id(1), vc.global_id(0)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = first + 10 * i + j


def test_values_change_while_types_stay(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.arange(5, dtype=np.float32)), gpu.zeros(5)
    for factor in (1.0, 2.5, -3.0):
        scaled(x, out, factor)
        assert np.array_equal(out.numpy(), np.arange(5, dtype=np.float32) * np.float32(factor))


def test_the_arrays_of_the_call_are_taken_not_those_of_the_first(gpu: vc.Runtime) -> None:
    arrays = [gpu.array(np.full(64, n, np.float32)) for n in range(4)]
    for _ in range(3):
        for n in range(3):
            scaled(arrays[n], arrays[3], 1.0)
            assert (arrays[3].numpy() == n).all()


def test_an_int_that_needs_a_wider_type_is_seen_both_ways(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.ones(4, np.uint32)), gpu.zeros(4, np.uint32)
    for factor in (3, 3_000_000_000, 5, 4_000_000_000, 2**31 - 1):
        scaled(x, out, factor)
        assert (out.numpy() == factor).all()
    with pytest.raises(ValueError, match="64 bits"):
        scaled(x, out, 2**70)
    scaled(x, out, 7)
    assert (out.numpy() == 7).all()


def test_views_of_the_same_bytes_in_another_shape(gpu: vc.Runtime) -> None:
    out = gpu.zeros(12, np.int32)
    for shape in ((3, 4), (4, 3), (2, 6), (3, 4)):
        numbered(out.reshape(shape), 1)
        expected = 1 + 10 * np.arange(shape[0])[:, None] + np.arange(shape[1])
        assert np.array_equal(out.numpy(), expected.reshape(-1))


def test_a_constant_from_outside_changes_between_launches(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = gpu.array(np.ones(4, np.float32)), gpu.zeros(4)
    for value in (1, 2, 3, 1):
        monkeypatch.setitem(globals(), "SCALE", value)
        scaled(x, out, 2.0)
        assert (out.numpy() == 2 * value).all()


def test_grids_differ(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.ones(128, np.float32)), gpu.zeros(128)
    for groups, n in ((1, 32), (2, 64), (1, 32)):
        out.fill(0)
        scaled[groups, 32](x, out, 1.0)
        assert out.numpy().sum() == n
    out.fill(0)
    scaled(x, out, 1.0)
    assert out.numpy().sum() == 128


def test_a_graph_records_what_has_been_launched_before(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.ones(4, np.float32)), gpu.zeros(4)
    scaled(x, out, 2.0)
    with gpu.record() as graph:
        scaled(x, out, 2.0)
    out.fill(0)
    assert not out.numpy().any()
    graph.run()
    assert (out.numpy() == 2).all()


def test_closed_arrays_and_runtimes_are_refused_and_functions_keep_none_alive() -> None:
    runtime = vc.Runtime()
    x, out = runtime.array(np.ones(4, np.float32)), runtime.zeros(4)
    scaled(x, out, 1.0)
    scaled(x, out, 1.0).result()
    x.close()
    with pytest.raises(vc.ClosedError):
        scaled(x, out, 1.0)
    runtime.close()
    with pytest.raises(vc.ClosedError):
        scaled(out, out, 1.0)
    gone = weakref.ref(runtime)
    del runtime, x, out
    gc.collect()
    assert gone() is None


def test_two_runtimes_take_turns() -> None:
    with vc.Runtime() as one, vc.Runtime() as other:
        pairs = [(gpu.array(np.full(8, n, np.float32)), gpu.zeros(8)) for n, gpu in enumerate((one, other), 1)]
        for _ in range(3):
            for n, (x, out) in enumerate(pairs, 1):
                scaled(x, out, 1.0)
                assert (out.numpy() == n).all()


BIAS = 1


@vc.vectorize
def biased(x: Any, a: Any) -> Any:
    return x * a + BIAS


class TestElements:
    """Calls of functions of elements and of reductions on the same arrays."""

    def test_values_change_while_types_stay(self, gpu: vc.Runtime) -> None:
        x, out = gpu.array(np.arange(5, dtype=np.float32)), gpu.zeros(5)
        for a in (1.0, 2.5, -3.0):
            assert biased(x, a, out=out) is out
            assert np.array_equal(out.numpy(), np.arange(5, dtype=np.float32) * np.float32(a) + 1)

    def test_types_of_numbers(self, gpu: vc.Runtime) -> None:
        x, out = gpu.array(np.ones(4, np.float32)), gpu.zeros(4)
        for a in (3, 2**31, True, np.bool_(True), 2.5, np.uint32(7), np.int32(-5), 5, -(2**31), np.float32(0.5)):
            biased(x, a, out=out)
            assert (out.numpy() == np.float32(a) + np.float32(1)).all()

    def test_a_captured_global_changes(self, gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        x, out = gpu.array(np.ones(4, np.float32)), gpu.zeros(4)
        for value in (1, 2, 3, 1):
            monkeypatch.setitem(globals(), "BIAS", value)
            biased(x, 2.0, out=out)
            assert (out.numpy() == 2 + value).all()
            assert (biased(x, 2.0).numpy() == 2 + value).all()

    def test_arguments_and_results_are_not_confused(self, gpu: vc.Runtime) -> None:
        one, other, out = (gpu.array(np.full(4, n, np.float32)) for n in (1, 2, 3))
        difference = vc.elementwise("x - y")
        for _ in range(2):
            difference(one, other, out=out)
            assert (out.numpy() == -1).all()
            difference(other, one, out=out)
            assert (out.numpy() == 1).all()
            difference(out, other, out=out)
            assert (out.numpy() == -1).all()
            assert (difference(y=one, x=other).numpy() == 1).all()

    def test_a_shifted_result_is_copied_each_time(self, gpu: vc.Runtime) -> None:
        numbers = np.arange(200, dtype=np.float32)
        x = gpu.array(numbers)
        for _ in range(3):
            biased(x[:-64], 1.0, out=x[64:])
            numbers[64:] = numbers[:-64] + 1
            assert np.array_equal(x.numpy(), numbers)

    def test_several_results(self, gpu: vc.Runtime) -> None:
        both = vc.elementwise("x + 1, x * 2")
        x, outs = gpu.array(np.arange(4, dtype=np.float32)), (gpu.zeros(4), gpu.zeros(4))
        for _ in range(2):
            assert both(x, out=outs) == outs
            assert [out.numpy().tolist() for out in outs] == [[1, 2, 3, 4], [0, 2, 4, 6]]
        with pytest.raises(TypeError, match="2 results"):
            both(x, out=outs[0])

    def test_a_graph_records_what_has_been_launched_before(self, gpu: vc.Runtime) -> None:
        x, out, total = gpu.array(np.ones(200, np.float32)), gpu.zeros(200), vc.reduce("a + b", 0)
        result = gpu.zeros(())
        for _ in range(2):
            biased(x, 2.0, out=out)
            total(out, out=result)
        with gpu.record() as graph:
            biased(x, 4.0, out=out)
            total(out, out=result)
        result.fill(0)
        assert result.item() == 0
        graph.run()
        assert result.item() == 1000

    def test_reductions_of_other_axes_and_numbers(self, gpu: vc.Runtime) -> None:
        numbers = np.arange(100 * 70, dtype=np.float32).reshape(100, 70) % 13
        x, total = gpu.array(numbers), vc.reduce("a + b", 0, map="x * k")
        for k in (1.0, 2.0, 3, True):
            for axis in (0, 1, None, (0, 1)):
                for keepdims in (False, True):
                    result = total(x, k, axis=axis, keepdims=keepdims)
                    assert np.array_equal(result.numpy(), np.sum(numbers * k, axis, keepdims=keepdims))
        for wrong in (1.0, [1], (0.0,)):
            with pytest.raises(TypeError, match="axis is an int"):
                total(x, 1.0, axis=wrong)


@pytest.mark.device_only
def test_changing_constants_do_not_accumulate_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.runtime.memory.context._MAX_KERNELS", 4)
    monkeypatch.setattr("vkcompute.compiled.cache._MAX_PER_KEY", 2)
    before = live_counts().get("ComputePipeline", 0)
    with vc.Runtime() as runtime:
        x, out = runtime.array(np.ones(4, np.float32)), runtime.zeros(4)
        for value in range(20):
            monkeypatch.setitem(globals(), "SCALE", value)
            monkeypatch.setitem(globals(), "BIAS", value)
            scaled(x, out, 1.0)
            assert (out.numpy() == value).all()
            biased(x, 2.0, out=out)
            assert (out.numpy() == 2 + value).all()
        runtime.wait()
        gc.collect()
        runtime.device.deletion_queue.collect()
        assert live_counts()["ComputePipeline"] - before <= 5


@pytest.mark.device_only
def test_new_results_have_the_type_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call before had another type, or converted its result in the place of the new one."""
    with vc.Runtime() as runtime:  # whose memory no other test has divided: new arrays take the places of freed ones
        x = runtime.array(np.ones(4, np.int32))
        for value, wanted in ((1, np.int32), (0.5, np.float32), (1, np.int32), (0.5, np.float32)):
            monkeypatch.setitem(globals(), "BIAS", value)
            outs = [runtime.zeros(4) for _ in range(8)]
            for out in outs:
                assert (biased(x, 2, out=out).numpy() == 2 + value).all()
            del out, outs
            runtime.device.collect(wait=True)
            results = [biased(x, 2) for _ in range(12)]
            assert {result.dtype for result in results} == {np.dtype(wanted)}
            assert all((result.numpy() == 2 + value).all() for result in results)


@pytest.mark.device_only
def test_plans_keep_no_function_alive(gpu: vc.Runtime) -> None:
    class Settings:
        SCALE = 2

    def launched() -> weakref.ref[Any]:
        settings = Settings()

        @vc.kernel
        def kernel(out: Any) -> None:
            out[0] = settings.SCALE

        @vc.vectorize
        def element(x: Any) -> Any:
            return x * settings.SCALE

        out = gpu.zeros(64, np.int32)
        for _ in range(2):
            kernel(out)
            element(out, out=out)
        assert out.numpy()[0] == 4
        return weakref.ref(settings)

    gone = launched()
    gc.collect()
    assert gone() is None


def test_a_launch_that_is_repeated_takes_the_lock_once(gpu: vc.Runtime) -> None:
    """It walks no stack, makes no future, and notes no cost where submits have no limit."""
    add, x, out = vc.elementwise("x + y"), gpu.zeros((64, 64)), gpu.zeros((64, 64))
    launches: list[list[str]] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            launches[-1].append(frame.f_code.co_name if event == "call" else arg.__name__)

    for _ in range(8):
        launches.append([])
        sys.setprofile(note)
        try:
            add(x, x, out=out)
        finally:
            sys.setprofile(None)
    calls = min(launches, key=len)
    assert calls.count("__exit__") == 1
    assert not {"_getframe", "refuse_interruption", "future", "Future", "add_cost"} & {*calls}
