"""What kernels print: numpy's own text, in the order of the grid, and nothing is lost without a word."""

# ruff: noqa: UP031, UP032 (formats of every kind are printed)
from __future__ import annotations

import concurrent.futures
import contextlib
import io
import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracle import module
from runtimes import open_runtime

import vkcompute as vc
from vkcompute import dtypes
from vkcompute.core.lifetime import live_counts
from vkcompute.core.queue import Queue

WIDTH, NAME = 12, "x {}"


def output(*uses: Callable[[], object]) -> str:
    """What calls print; launches among them, for one may find another finished, and say so then."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        for use in uses:
            use()
    return told.getvalue()


@vc.kernel
def show(x, where):
    i = vc.global_id(0)
    if i < x.size:
        print(NAME, i, x[i], (i, x[i], "it's"), None, sep=", ")
        print(f"{{{NAME}}}: {x[i]:>{WIDTH}} {x[i]!s:<10}|{i:03d} {i=}{'}'!r}", end=".\n")
        print()
        where[i] = 1


def shown(x: Any) -> None:
    """The same by Python."""
    for k, each in enumerate(x):
        i = np.int32(k)
        print(f'x {{}}, {i}, {each!s}, ({i}, {each!s}, "it\'s"), None')
        print(f"{{x {{}}}}: {each:>12} {each!s:<10}|{i:03d} i={i}{'}'!r}", end=".\n")
        print()


@pytest.mark.parametrize("name", [row.name for row in dtypes.TABLE if row.name != "bool"])
@settings(max_examples=8)
@given(data=st.data())
def test_numbers_of_every_type_as_numpy_prints_them(gpu: Any, name: str, data: st.DataObject) -> None:
    plain = {"allow_nan": False, "allow_subnormal": False} if name.startswith("float") else {}
    x = data.draw(hnp.arrays(name, st.integers(1, 5), elements=hnp.from_dtype(np.dtype(name), **plain)))

    def run() -> None:
        show[1, 8](gpu.array(x), gpu.zeros(len(x), np.int32)).result()

    try:
        assert output(run) == output(lambda: shown(x))
    except vc.MissingFeature:
        pytest.skip(f"the device has no {name}")


@vc.kernel
def constants(out, count, rate, flag):
    v = vc.float32x3(1, rate, 3)
    print(True, 7, 2.5, "a", (), (1,), ("b", 2.0), np.float32(0.1), f"{WIDTH:+}{'x':>3}")
    print(count, rate, flag, v, v.x, out.shape, out.size, out.dtype, len(out), flag and count > 2, end="")
    print("\n", count, sep="", end=None, flush=True)
    out[0] = count


def test_constants_arguments_flags_tuples_and_vectors(gpu: Any) -> None:
    first = "True 7 2.5 a () (1,) ('b', 2.0) 0.1 +12  x"
    second = "3 0.25 True float32x3(1.0, 0.25, 3.0) 1.0 (2,) 2 float32 2 True"
    assert output(lambda: constants[1, 1](gpu.zeros(2), 3, 0.25, True).result()) == f"{first}\n{second}\n3\n"


def twice(k, x):
    print(f"  in a function {k}: {x * 2}")
    return x * 2


@vc.kernel
def nested(x, out):
    i = vc.global_id(0)
    for j in range(i):
        if j % 2 == 0:
            print("loop", i, j)
            continue
        out[i] += twice(j, x[i])
    while i > 2:
        print("last", i)
        break


def test_loops_branches_and_functions_in_the_order_of_the_program(gpu: Any) -> None:
    expected = []
    for i in range(5):
        expected += [f"  in a function {j}: {i * 2}" if j % 2 else f"loop {i} {j}" for j in range(i)]
        expected += [f"last {i}"] * (i > 2)
    x = gpu.array(np.arange(5, dtype=np.int32))
    assert output(lambda: nested[5, 1](x, gpu.zeros(5, np.int32)).result()).splitlines() == expected


@vc.kernel(print_limit=50_000)
def places(out):
    x, y, z = vc.global_id(0), vc.global_id(1), vc.global_id(2)
    print(z, y, x)
    print("again")
    out[z, y, x] = 1


@pytest.mark.device_only
@pytest.mark.parametrize(
    ("groups", "local"), [((3, 2, 2), (2, 3, 2)), ((50, 1, 1), (64, 1, 1)), ((1, 40, 9), (4, 4, 4))]
)
def test_the_order_is_that_of_the_grid(gpu: vc.Runtime, groups: Any, local: Any) -> None:
    shape = tuple(a * b for a, b in zip(groups, local, strict=True))[::-1]
    if np.prod(local) > 128:
        pytest.skip("more invocations than every device has")
    told = output(lambda: places[groups, local](gpu.zeros(shape)).result())
    expected = [line for place in np.ndindex(*shape) for line in (" ".join(map(str, place)), "again")]
    assert told.splitlines() == expected


@vc.kernel(print_limit=7)
def chatter(out, n):
    i = vc.global_id(0)
    for k in range(n):
        print("said", i, k, i * n + k)
    out[i] = n


@pytest.mark.device_only
def test_what_has_no_room_is_told_with_the_remedy(gpu: vc.Runtime) -> None:
    def run(kernel: Any, n: int) -> list[str]:
        return output(lambda: kernel[4, 8](gpu.zeros(32, np.int32), n).result()).splitlines()

    assert run(chatter, 0) == []
    with pytest.warns(RuntimeWarning, match="chatter: .* prints were lost") as warned:
        kept = run(chatter, 10)
    said = re.search(r"chatter: (\d+) of its (\d+) prints.*print_limit=(\d+)", str(warned[0].message))
    assert said is not None
    lost, total, wanted = map(int, said.groups())
    assert (total, len(kept)) == (320, 320 - lost)
    assert 7 <= len(kept) < 12, "as many as there is room for"
    whole = [f"said {i} {k} {i * 10 + k}" for i in range(32) for k in range(10)]
    assert kept == [item for item in whole if item in set(kept)], "whole lines, in order"
    assert run(vc.kernel(print_limit=wanted)(chatter.__wrapped__), 10) == whole
    with pytest.warns(RuntimeWarning, match="prints were lost"):
        assert len(run(chatter, 2)) == len(kept), "the buffer is as before"


@pytest.mark.device_only
def test_what_cannot_be_printed(gpu: vc.Runtime) -> None:
    @vc.kernel
    def to_file(x):
        print(x[0], file=None)

    @vc.kernel
    def an_array(x):
        print(x)

    @vc.kernel
    def odd_end(x):
        print(x[0], end=x[0])

    @vc.kernel
    def kept_text(x):
        text = f"{x[0]}"
        print(text)

    @vc.kernel
    def wrong_format(x):
        print(f"{x[0]:d}")

    @vc.kernel
    def format_of_the_device(x):
        print(f"{x[0]:{vc.global_id(0)}}")

    for kernel, message, caret in (
        (to_file, "print takes sep and end in kernels, and writes to sys.stdout; got file", "print("),
        (an_array, r"print takes numbers; got the array x .*; print its elements", "print("),
        (odd_end, "end is a string known at compile time; got float32", "print("),
        (kept_text, "an f-string of device values is for print", 'f"{x'),
        (wrong_format, "the format 'd' does not fit float32", "x[0]:d"),
        (format_of_the_device, "an f-string of device values is for print", "vc.global_id(0)}"),
    ):
        with pytest.raises(vc.KernelError, match=message) as told:
            kernel[1, 1](gpu.zeros(2))
        assert caret in str(told.value)


@pytest.mark.device_only
def test_functions_of_arrays_print_nothing(gpu: vc.Runtime) -> None:
    @vc.vectorize
    def loud(x):
        print(x)
        return x

    with pytest.raises(vc.KernelError, match=r"only kernels of vc\.kernel can report"):
        loud(gpu.zeros(3))


@vc.kernel
def tell(x, step):
    i = vc.global_id(0)
    if i < x.size:
        print("step", step, "at", i, x[i])
        x[i] += 1


@pytest.fixture(params=[{}, {"staging": True}, {"timelines": (3, 1)}], ids=["direct", "staging", "lanes"])
def runtime(request: pytest.FixtureRequest, clean_handles: None) -> Iterator[vc.Runtime]:
    with open_runtime(**request.param) as runtime:
        yield runtime


def told_steps(*steps: tuple[int, float]) -> list[str]:
    return [f"step {step} at {i} {value}" for step, value in steps for i in range(3)]


@pytest.mark.device_only
def test_when_it_is_printed(runtime: vc.Runtime) -> None:
    x, other = runtime.zeros(3), runtime.zeros(3)

    def launches() -> None:
        tell(x, 1)
        tell(x, 2)
        runtime.flush()

    assert output(launches).splitlines() in ([], told_steps((1, 0.0)), told_steps((1, 0.0), (2, 1.0)))
    output(runtime.wait)
    told = output(lambda: tell(x, 3), lambda: tell(x, 4), x.numpy)
    assert told.splitlines() == told_steps((3, 2.0), (4, 3.0)), "seen by a download"
    future = tell(x, 5)
    assert output(future.result).splitlines() == told_steps((5, 4.0)), "by a result"
    assert output(future.result) == "", "once"
    tell(x, 6)
    assert output(runtime.wait).splitlines() == told_steps((6, 5.0)), "by a wait"
    told = output(lambda: tell(x, 7), lambda: tell(other, 8), runtime.close)
    assert told.splitlines() == told_steps((7, 6.0), (8, 0.0)), "at the end"


@pytest.mark.device_only
def test_each_run_of_a_graph(runtime: vc.Runtime) -> None:
    x = runtime.zeros(3)
    with runtime.record(step=1) as graph:
        tell(x, graph["step"])
        tell(x, 10)
    assert output(graph.run).splitlines() == told_steps((1, 0.0), (10, 1.0))
    assert output(lambda: graph.run(times=3, step=2)).splitlines() == told_steps(
        (2, 2.0), (10, 3.0), (2, 4.0), (10, 5.0), (2, 6.0), (10, 7.0)
    )
    x.fill(0)

    def overlapping() -> None:
        for step in range(6):
            graph.submit(step=step)
        runtime.wait()

    runs = [item for step in range(6) for item in ((step, 2.0 * step), (10, 2.0 * step + 1))]
    assert output(overlapping).splitlines() == told_steps(*runs)
    x.fill(0)
    with runtime.record() as outer:
        graph.run(times=2, step=7)
    assert output(outer.run).splitlines() == told_steps((7, 0.0), (10, 1.0), (7, 2.0), (10, 3.0))
    assert output(lambda: graph.submit(step=8), runtime.close).splitlines() == told_steps((8, 4.0), (10, 5.0))


@pytest.mark.device_only
def test_launches_that_finish_while_the_host_looks(runtime: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prints keep the order of the launches where the earlier one is asked about just before both have finished."""
    x = runtime.zeros(3)

    def together() -> None:
        futures = [tell(x, step) for step in range(3)]
        runtime.flush()
        for queue in runtime.device.queues:
            runtime.device.fn.vkQueueWaitIdle(queue.handle)  # behind the queue's back: it has seen nothing finished
        polls, poll = itertools.count(), Queue.poll
        late = lambda queue: poll(queue) if next(polls) else queue.completed  # noqa: E731
        monkeypatch.setattr(Queue, "poll", late)
        runtime.scheduler.callbacks.run()
        monkeypatch.undo()
        assert all(future.done() for future in futures)

    assert output(together).splitlines() == told_steps((0, 0.0), (1, 1.0), (2, 2.0))


@pytest.mark.device_only
def test_threads_print_whole_launches(runtime: vc.Runtime) -> None:
    def work(step: int) -> None:
        for _ in range(10):
            x = runtime.full(3, float(step))
            (tell(x, step).result if step % 2 else x.numpy)()

    def together() -> None:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        runtime.wait()

    told = output(together).splitlines()
    assert [told[k : k + 3] for k in range(0, len(told), 3) if told[k : k + 3] not in SINGLE] == []
    assert len(told) == 2 * 10 * 3


SINGLE = [told_steps((step, float(step))) for step in range(4)]


@vc.kernel(check_bounds=True)
def stumbles(x, out, shift):
    i = vc.global_id(0)
    print("before", i)
    out[i] = x[i + shift]
    print("after", i, out[i])


@pytest.mark.device_only
def test_prints_around_an_error(runtime: vc.Runtime) -> None:
    x, out = runtime.array(np.arange(1, 5, dtype=np.int32)), runtime.zeros(4, np.int32)
    told = io.StringIO()
    with (
        contextlib.redirect_stdout(told),
        pytest.raises(vc.KernelError, match=r"index 4 is .* \(2, 0, 0\).* of 2 failures"),
    ):
        stumbles[4, 1](x, out, 2).result()
    values = [3, 4, 0, 0]
    assert told.getvalue().splitlines() == [
        line for i, value in enumerate(values) for line in (f"before {i}", f"after {i} {value}")
    ]


@vc.kernel
def counts(out, n):
    i = vc.global_id(0)
    total = 0
    for k in range(n):
        total += 1
        if k % 40_000 == 0:
            print(i, k, total)
    out[i] = total


@pytest.mark.device_only
def test_long_loops_print(gpu: vc.Runtime) -> None:
    told = output(lambda: counts[3, 1](gpu.zeros(3, np.int32), 60_000).result())
    assert told.splitlines() == [f"{i} {k} {k + 1}" for i in range(3) for k in range(0, 60_000, 40_000)]


@pytest.mark.device_only
def test_streams_and_groups_print(group: vc.DeviceGroup) -> None:
    gpu = group.runtimes[0]
    x = np.arange(6, dtype=np.float32)
    told = output(lambda: gpu.stream(x, lambda part: tell(part, 1), chunk_bytes=12))
    assert told.splitlines() == [f"step 1 at {i % 3} {float(i)}" for i in range(6)]
    parts = group.array(x)
    told = output(lambda: group.kernel(tell)(parts, 2).result())
    assert sorted(told.splitlines()) == sorted(
        f"step 2 at {i} {float(rows.start + i)}" for rows in parts.rows or () for i in range(len(rows))
    )


@pytest.mark.device_only
def test_nothing_grows(runtime: vc.Runtime) -> None:
    x = runtime.zeros(3)

    def held() -> tuple[dict[str, int], int]:
        for step in range(200):
            tell(x, step)
        runtime.wait()
        runtime.device.collect(wait=True)
        return live_counts(), runtime.device.memory.used_bytes

    with contextlib.redirect_stdout(io.StringIO()):
        before = held()
        assert [held() for _ in range(3)] == [before] * 3


@pytest.mark.device_only
def test_what_was_kept_on_disk_prints_the_same(run_python: Callable[..., Any], tmp_path: Any) -> None:
    (tmp_path / "loud.py").write_text(
        "import vkcompute as vc\n"
        "@vc.kernel(check_bounds=True)\n"
        "def loud(x):\n"
        "    i = vc.global_id(0)\n"
        "    print(f'{i}: {x[i]:.2f}', i > 1)\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import vkcompute as vc\nfrom loud import loud\nfrom vkcompute.jit import launcher\n"
        "made = None\n"
        "with vc.Runtime() as gpu:\n"
        "    error = loud[3, 1](gpu.full(2, 1.5)).exception()\n"
        "    print(error)\n"
    )
    env = {**os.environ, "VKCOMPUTE_CACHE_DIR": str(tmp_path / "cache")}
    first = run_python(code, env=env).stdout
    again = run_python(code.replace("made = None", "launcher.specialize = lambda *_, **__: 1 / 0"), env=env)
    assert again.stdout == first, again.stderr
    assert first.splitlines()[:3] == ["0: 1.50 False", "1: 1.50 False", "2: 0.00 True"]
    assert re.search(
        r"loud\.py:5:\d+: index 2 is outside of x, whose shape is \(2,\), in invocation \(2, 0, 0\) of loud", first
    )


@vc.kernel
def told_as_elsewhere(out, f):
    i = vc.global_id(0)
    out[i] = i
    print("%d" % i, "%5d|%-5d|%05d|%+d|%x|%#X|%%" % (i, i + 20, -i, i, i + 10, i + 10), "%s and %r" % (f[i], "a"))
    print("{}".format(i), "{1:.3f} {0!s:>4} {name:e} {{}}".format(i, f[i], name=f[i]))
    print("%8.3f|%-8.2e|%08.2f|%g|% d|%6s|" % (f[i], f[i], f[i], f[i], i, f[i]), "%i%%" % i)


def test_percent_and_format(gpu: vc.Runtime) -> None:
    f = np.array([1.5, -2.5], np.float32)
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        told_as_elsewhere[1, 2](gpu.zeros(2), gpu.array(f)).result()
    expected = ""
    for i, v in enumerate(f):
        expected += "%d %5d|%-5d|%05d|%+d|%x|%#X|%% %s and %r\n" % (i, i, i + 20, -i, i, i + 10, i + 10, v, "a")
        expected += "{0} {1:.3f} {0!s:>4} {1:e} {{}}\n".format(i, v)
        expected += "%8.3f|%-8.2e|%08.2f|%g|% d|%6s| %i%%\n" % (v, v, v, v, i, v, i)
    assert lines.getvalue() == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("x", "print takes numbers; got the array x"),
        ("'%d' % x[0]", "the format 'd' does not fit float32"),
        ("'%d %d' % i", "has no argument for %d"),
        ("'%d' % (i, i)", "does not fit its 2 arguments"),
        ("'%z' % i", "does not fit its 1 arguments"),
        ("'%.3d' % i", "write an f-string"),
        ("'{} {}'.format(i)", "has no argument for the field ''"),
        ("'{n}'.format(i)", "has no argument for the field 'n'"),
        ("'{'.format(i)", "is no format"),
    ],
)
def test_the_simulator_refuses_what_a_device_does(gpu: vc.Runtime, given: str, reason: str) -> None:
    text = f"import vkcompute as vc\ndef told(x):\n    i = vc.global_id(0)\n    x[i] = 1\n    print({given})\n"
    with pytest.raises(vc.KernelError, match=reason):
        vc.kernel(module(text).told)[1, 1](gpu.zeros(1))
