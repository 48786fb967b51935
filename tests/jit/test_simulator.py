"""Simulated kernels: what is found that a device would let pass, and what one who looks on sees."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from oracle import module

import vkcompute as vc
from vkcompute.errors import KernelError

GROUP = 4
HEAD = """
import numpy as np
import vkcompute as vc
def add(array, i, value):
    array[i] += value
def kernel(x, out):
    tile = vc.shared((2, 4), vc.int32)
    i, here, group = vc.global_id(0), vc.local_id(0), vc.group_id(0)
    {}
"""

# (statements of a kernel of x and out, two workgroups of four, 8 int32 each; what is found; who; what stands there)
FOUND = [
    ("out[i + 1] = 0", "out[8] is out of bounds: out has the shape (8,)", 7, "out[i + 1]"),
    ("out[i] = x[i - 1]", "x[-1] is out of bounds: x has the shape (8,)", 0, "x[i - 1]"),
    ("out[i] = x[-i]", "x[-1] is out of bounds", 1, "x[-i]"),
    ("tile[here // 3, here] = 1; tile[2 - here, 0] = 1", "tile[2, 0] is out of bounds: tile has the shape (2, 4)", 0,
     "tile[2 - here, 0]"),
    ("vc.atomic.add(out, i * 2, 1)", "out[8] is out of bounds", 4, "vc.atomic.add"),
    ("add(out, i + 5, 1)", "out[8] is out of bounds", 3, "array[i]"),
    ("out[i] = tile[0, here]", "tile[0, 0] is read, and no invocation of the workgroup has written it", 0, "tile["),
    ("vc.atomic.add(tile, (1, 2), 1)", "tile[1, 2] is read, and no invocation", 0, "vc.atomic.add"),
    ("if group == 0: tile[0, here] = 1\n    else: out[i] = tile[0, here]", "tile[0, 0] is read", 4, "tile[0, here]"),
    ("out[0] = i", "a race: this writes out[0], which invocation (0, 0, 0) wrote at {}:9 and nothing", 1, "out[0]"),
    ("out[group] += 1", "a race: this reads out[0], which invocation (0, 0, 0) wrote", 1, "out[group]"),
    ("out[i] = x[here]; x[i] = 0", "a race: this reads x[0], which invocation (0, 0, 0) wrote", 4, "x[here]"),
    ("out[i] = x[i ^ 1]; x[i] = 0", "a race: this reads x[0], which invocation (0, 0, 0) wrote", 1, "x[i ^ 1]"),
    ("out[i] = x[7]\n    if i == 6: x[7] = 1", "a race: this writes x[7], which invocation (5, 0, 0) read at {}:9", 6,
     "x[7] = 1"),
    ("out[i] = x[7 - i]; vc.barrier(); x[i] = 1",
     "at {}:9 and nothing orders the two; workgroups run in no order", 4, "x[7 - i]"),
    ("tile[0, here] = i; out[i] = tile[0, here ^ 1]", "tile[0, 1] is read, and no", 0, "tile[0, here ^ 1]"),
    ("tile[0, here] = i\n    vc.barrier()\n    out[i] = tile[0, here ^ 1]\n    tile[0, here] = 0",
     "a race: this reads tile[0, 0], which invocation (0, 0, 0) wrote at {}:12", 1, "tile[0, here ^ 1]"),
    ("vc.atomic.add(out, 0, 1); x[i] = out[0]",
     "changes (atomically) out[0], which invocation (0, 0, 0) read", 1, "vc.atomic.add"),
    ("if i == 6: out[0] = 1\n    vc.atomic.max(out, here, 1)",
     "out[0], which invocation (4, 0, 0) changed (atomically)", 6, "out[0]"),
    ("if here < 2: vc.barrier()", "invocation (2, 0, 0) of the same workgroup has ended", 0, "vc.barrier()"),
    ("if here == 3:\n        vc.barrier()\n    else:\n        vc.barrier()",
     "(0, 0, 0) of the same workgroup waits at {}:12", 3, "vc.barrier()"),
    ("for _ in range(here // 3 + 1): vc.barrier()", "invocation (0, 0, 0) of the same workgroup has ended", 3,
     "vc.barrier()"),
    ("out[i] = 7 // (i - 5)", "7 is divided by zero, which is undefined for integers", 5, "7 // (i - 5)"),
    ("out[i] = 7 % (i - 5)", "7 is divided by zero", 5, "7 % (i - 5)"),
    ("out[i] = vc.subgroup.shuffle(i, here + 2)", "this reads the value of lane 4, which is inactive here", 2,
     "vc.subgroup.shuffle"),
    ("if here < 2: out[i] = vc.subgroup.shuffle(i, 3)", "the value of lane 3, which is inactive", 0, "vc.subgroup"),
]  # fmt: skip

# Statements that look like it, and are none of these.
NOT_FOUND = [
    "out[7 - i] = x[-1] + x[7 - i]",
    "out[i] += 1; out[i] *= out[i]; x[i] = out[i]",
    "vc.atomic.add(out, 0, 1); vc.atomic.max(out, 0, i)",
    "if i > 0: out[i] = x[0] + x[1]",
    "tile[0, here] = i; vc.barrier(); out[i] = tile[0, 3 - here]; vc.barrier(); tile[0, here] = 0",
    "out[i] = 0; vc.barrier(); x[i] = out[i ^ 3]; vc.barrier(); out[i ^ 1] = x[i]",
    "if here == 0: tile[1, 1] = 3\n    vc.barrier()\n    vc.atomic.add(tile, (1, 1), i)",
    "for k in range(group + 1):\n        if k < 1: vc.barrier()\n        else: vc.barrier()",
    "if x[group] < 3: vc.barrier()",
    "if i == 5: return\n    vc.barrier()",
    "if here < 2: return\n    vc.barrier()\n    out[i] = vc.barrier_count(here > 2)",
    "add(out, i, 3)",
    "out[i] = 3**i",
]


def kernel_of(statements: str) -> tuple[Any, str]:
    """A kernel, and the file that it is in."""
    function = module(HEAD.format(statements)).kernel
    return vc.kernel(function), function.__code__.co_filename


@pytest.mark.pure
@pytest.mark.parametrize(("statements", "message", "who", "at"), FOUND, ids=[item[0] for item in FOUND])
def test_what_is_found(statements: str, message: str, who: int, at: str) -> None:
    kernel, file = kernel_of(statements)
    with pytest.raises(KernelError) as raised:
        kernel.simulate[2, GROUP](np.zeros(8, np.int32), np.zeros(8, np.int32))
    first, text, caret, *more = str(raised.value).split("\n")
    who_at = r"kernel, invocation \((\d), 0, 0\) of workgroup \((\d), 0, 0\): "
    place = re.match(rf"{re.escape(file)}:(\d+):(\d+): {who_at}", first)
    assert place is not None, first
    assert (int(place[3]), int(place[4])) == (who, who // GROUP), first
    assert message.format(file) in first
    assert caret.strip() == "^"
    if sys.version_info >= (3, 11):
        assert text[caret.index("^") :].startswith(at), str(raised.value)
    assert any("in this call of add" in line for line in more) == statements.startswith("add")


@pytest.mark.pure
@pytest.mark.parametrize("statements", NOT_FOUND)
def test_what_is_allowed(statements: str) -> None:
    kernel, _ = kernel_of(statements)
    kernel.simulate[2, GROUP](np.zeros(8, np.int32), np.zeros(8, np.int32))


FILE = """
import sys, threading
sys.modules["vulkan"] = None  # importing it is an error
import numpy as np
import vkcompute as vc

def twice(v):
    result = v * 2
    return result

@vc.kernel
def kernel(x, out, a):
    i = vc.global_id(0)
    part = vc.shared(4, vc.float32)
    part[vc.local_id(0)] = a
    vc.barrier()
    out[i] = twice(x[i]) + part[3 - vc.local_id(0)]
    if i < 2:
        {}

if __name__ == "__main__":
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    future = kernel[2, 4](x, out, 0.5)
    assert future.done() and future.result() is None
    print(*out, threading.active_count(), "vkcompute.core.vk" in sys.modules)
"""
COMPUTED = "0.5 2.5 4.5 6.5 8.5 10.5 12.5 14.5 1 False"


def ran(path: Path, statement: str, *options: str, said: str = "", simulate: str = "1") -> str:
    """What the program says in a process without a Vulkan driver."""
    path.write_text(FILE.format(statement), encoding="utf-8")
    env = os.environ | {"VKCOMPUTE_SIMULATE": simulate, "VK_ICD_FILENAMES": "", "VK_DRIVER_FILES": ""}
    command = [sys.executable, *options, str(path)]
    done = subprocess.run(
        command, env=env, input=said, capture_output=True, text=True, timeout=hang_limit_s(), check=False
    )
    return done.stdout + done.stderr


@pytest.mark.pure
def test_all_launches_are_simulated_without_vulkan(tmp_path: Path) -> None:
    assert ran(tmp_path / "mine.py", "pass").split("\n")[0] == COMPUTED
    assert ran(tmp_path / "mine.py", "pass", simulate="True").split("\n")[0] == COMPUTED
    words = ran(tmp_path / "mine.py", "pass", simulate="maybe")
    assert "ValueError: VKCOMPUTE_SIMULATE is 1 or 0 (or true, false, yes, no, on, off); got 'maybe'\n" in words
    for off in ("", "0", "false"):
        assert "import of vulkan halted" in ran(tmp_path / "mine.py", "pass", simulate=off)


@pytest.mark.pure
def test_prints_come_in_order(tmp_path: Path) -> None:
    said = ran(tmp_path / "mine.py", "print(i, f'{x[i]:.3f}', vc.group_id(0), x.shape, sep=';')").split("\n")
    assert said[:3] == ["0;0.000;0;(8,)", "1;1.000;0;(8,)", COMPUTED]


@pytest.mark.pure
def test_breakpoints_in_the_kernel(tmp_path: Path) -> None:
    said = ran(
        tmp_path / "mine.py",
        "breakpoint()",
        said="up\ndown\np i, out[i], a\np x\nc\np i + 1, x[i], vc.global_id(), vc.group_id(0), vc.local_size()\nc\n",
    )
    assert f"{tmp_path}/mine.py(19)" in said
    for expected in ("(0, 0.5, 0.5)", "x: array([0., 1., 2.", "(2, 1.0, 1, 0, 4)", COMPUTED):
        assert expected in said, said


@pytest.mark.pure
def test_a_debugger_steps_through_kernel_and_functions(tmp_path: Path) -> None:
    """Lines of the user's file and no others; a breakpoint of a line inside of a function is met in every thread."""
    said = ran(tmp_path / "mine.py", "pass", "-m", "pdb", said="b 8\nc\np v\nn\np result\nr\nn\nc\ncl 1\nc\nq\n")
    text = (tmp_path / "mine.py").read_text(encoding="utf-8").split("\n")
    shown = re.findall(r"mine\.py\((\d+)\).*\n(?:\(Pdb\) )?-> (.*)", said)
    assert {int(line) for line, _ in shown} >= {8, 9}
    assert all(text[int(line) - 1].strip() == shows.strip() for line, shows in shown), said
    assert COMPUTED.rpartition(" 1 ")[0] in said


@pytest.mark.pure
def test_a_tracer_sees_the_lines_that_run() -> None:
    text = """
import numpy as np
import vkcompute as vc
def kernel(x, out):
    i = vc.global_id(0)
    k = 0
    for j in range(3):
        if x[j] > 1:
            k = k + 0.5
        elif j == 1:
            k += 1
    t = (
        k,
        i)
    while k > 1:
        k = k - 1
    out[i] = t[0] + k
"""
    kernel, seen = vc.kernel(module(text).kernel), list[int]()
    file = kernel.__wrapped__.__code__.co_filename

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == file and event == "line":
            seen.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        kernel.simulate[1, 1](np.array([0, 1, 2], np.float32), np.zeros(1, np.float32))
    finally:
        sys.settrace(before)
    lines = [line for n, line in enumerate(seen) if n == 0 or seen[n - 1] != line]
    loop = [7, 8, 10, 7, 8, 10, 11, 7, 8, 9, 7]
    assert [line for line in lines if line not in (12, 13, 14)] == [5, 6, *loop, 15, 16, 15, 17]


@vc.kernel
def halves(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] / 2


def test_arrays_are_downloaded_and_written_back(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.arange(5, dtype=np.int32)), gpu.zeros(5)
    before = out.numpy()
    halves.simulate(x, out)
    assert before.tolist() == [0] * 5
    assert out.numpy().tolist() == [0, 0.5, 1, 1.5, 2]
    mixed = np.zeros(5, np.float32)
    halves.simulate(x, mixed)
    assert np.array_equal(mixed, out.numpy())
    with pytest.raises(ValueError, match=r"a simulated launch runs at once.*without gpu\.record"), gpu.record():
        halves.simulate(x, out)
    both = gpu.full(6, 4.0)
    summed.simulate[1, 6](both, both)  # what is read in one is written in the other
    assert both.numpy().tolist() == [8] * 6
    with pytest.raises(KernelError, match=r"a race: this reads x\[1\], which invocation \(0, 0, 0\) wrote"):
        halves.simulate(both[:4], both[1:5])
    halves.simulate(both[::2], both[1::2])
    assert both.numpy().tolist() == [8, 4] * 3
    halves.simulate(both[:0], both[6:])


def test_elements_that_nothing_has_written(gpu: vc.Runtime) -> None:
    unwritten = r"\[3\] is read, and nothing has written it since gpu\.empty"
    x, out = gpu.full(6, 4.0), gpu.empty(6)
    halves.simulate[1, 3](x, out)
    summed.simulate[1, 3](x, out)  # of which it reads the first three
    assert out.numpy()[:3].tolist() == [9] * 3  # a look at it is none at what it holds
    for _ in range(2):
        with pytest.raises(KernelError, match=f"out{unwritten}"):
            summed.simulate[1, 6](x, out)
    with pytest.raises(KernelError, match=f"x{unwritten}"):
        halves.simulate(out, out)
    views = out[:3].view(np.int32), out[3:].view(np.int32)
    with pytest.raises(KernelError, match=r"x\[0\] is read, and nothing has"):
        halves.simulate(views[1], views[0])
    copied.simulate[1, 3](views[0], views[1])  # as integers
    summed.simulate[1, 6](x, out)
    assert out.numpy().tolist() == [12.5] * 6


WRITES: list[Any] = [
    lambda x, y: y.write(np.ones(6)),
    lambda x, y: y[2:4].write([1, 2]),
    lambda x, y: y.fill(1),
    lambda x, y: y.copy_from(x),
    lambda x, y: halves[1, 6](x, y),
    lambda x, y: np.from_dlpack(y) if y.runtime.device.memory.unified else y.fill(1),
]


@pytest.mark.parametrize("write", WRITES)
def test_what_else_writes_an_array_writes_all_of_it(gpu: vc.Runtime, write: Any) -> None:
    """For all that a simulation knows: others say no more than that they write."""
    x, y = gpu.full(6, 4.0), gpu.empty(6)
    halves.simulate[1, 2](x, y)
    write(x, y)
    summed.simulate[1, 6](x, y)


@vc.kernel
def copied(x, out):
    out[vc.global_id(0)] = x[vc.global_id(0)]


@vc.kernel
def counted(x):
    x[vc.global_id(0)] += 1


def test_simulations_in_threads_on_one_array_lose_nothing(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4, np.int32)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: counted.simulate[1, 4](x), range(40)))
    assert x.numpy().tolist() == [40] * 4


@vc.kernel
def summed(x, out):
    i = vc.global_id(0)
    out[i] /= 2
    out[i] += x[i]
    out[i] += x[i]


@vc.kernel
def faulty(x):
    if vc.global_id(0) == 2:
        vc.atomic.add(x, 70, 1)
    vc.barrier()


@pytest.mark.pure
def test_what_a_simulation_takes() -> None:
    x, frozen = np.zeros(8, np.float32), np.zeros(8, np.float32)
    frozen.flags.writeable = False
    halves.simulate(frozen, x)
    for args, error, message in [
        ((x, frozen), ValueError, "the kernel writes out, and the array given for it is read-only; copy it"),
        ((x, np.broadcast_to(x[:1], 8)), ValueError, "the array given for it is read-only; copy it"),
        ((x, [0.0]), TypeError, "takes NumPy arrays, device arrays and numbers; got list for out"),
        ((x, x.astype(object)), TypeError, "got an array of object for out"),
        ((x, x.astype(">f4")), TypeError, "got an array of >f4"),
        ((x,), TypeError, r"halves\(\): missing a required argument: 'out'"),
        ((x, 1), KernelError, "a Python int has no attribute size"),
    ]:
        with pytest.raises(error, match=message):
            halves.simulate(*args)
    with pytest.raises(ValueError, match=r"assigns to no array.*: give the grid"):
        vc.kernel(nothing).simulate(x)
    with pytest.raises(ValueError, match=r"workgroups of \(0, 1, 1\) have no invocations"):
        halves.simulate[1, 0](x, x.copy())
    n_threads = threading.active_count()
    for _ in range(2):
        with pytest.raises(KernelError, match=r"invocation \(2, 0, 0\) of workgroup \(0, 0, 0\): x\[70\] is out"):
            faulty.simulate[1, 64](np.zeros(8, np.int32))
    assert threading.active_count() == n_threads


def nothing(x):
    pass


@pytest.mark.pure
def test_a_simulated_launch_is_waited_for_like_others() -> None:
    async def launched() -> Any:
        return await halves.simulate(np.ones(4), np.ones(4))

    future = halves.simulate(np.ones(4), np.ones(4))
    assert (future.result(timeout_s=1), future.done(), asyncio.run(launched())) == (None, True, None)
    assert concurrent.futures.wait([future], 1).done == {future}


@pytest.mark.pure
def test_one_array_as_two_arguments_is_one_memory() -> None:
    x = np.arange(8, dtype=np.float32)
    halves.simulate(x, x)
    assert x.tolist() == [n / 2 for n in range(8)]
    with pytest.raises(KernelError, match="a race"):
        halves.simulate(x[:4], x[1:5])


@pytest.mark.pure
def test_simulations_in_threads_know_nothing_of_each_other() -> None:
    def run(n: int) -> list[float]:
        x, out = np.full(50, n, np.float32), np.zeros(50, np.float32)
        halves.simulate(x, out)
        return list(set(out.tolist()))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(8))) == [[n / 2] for n in range(8)]


@vc.kernel
def float_arithmetic(x, y, k, out):
    i = vc.global_id(0)
    a, b = x[i], y[i]
    out[0, i], out[1, i], out[2, i], out[3, i] = a + b, a - b, a * b, a / b
    out[4, i], out[5, i], out[6, i] = math.sqrt(abs(a)), a + k[i], k[i] / 3
    out[7, i], out[8, i], out[9, i] = np.floor(a) + round(b), k[i] * 0.1, float(k[i]) - b
    out[10, i], out[11, i], out[12, i] = abs(a) ** 0.5, 1 / a, min(a, b) - max(a, 1.5)


def test_floats_are_the_devices(gpu: vc.Runtime) -> None:
    """Each operation to 2 units in the last place, the widest that Vulkan leaves to a division."""
    rng, n = np.random.default_rng(0), 512
    x, y = ((rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 6, n)).astype(np.float32) for _ in range(2))
    k = rng.integers(-(2**31), 2**31, n).astype(np.int32)
    out, simulated = gpu.zeros((13, n)), np.zeros((13, n), np.float32)
    float_arithmetic[n // 64, 64](gpu.array(x), gpu.array(y), gpu.array(k), out)
    float_arithmetic.simulate[n // 64, 64](x, y, k, simulated)
    np.testing.assert_array_max_ulp(out.numpy(), simulated, 3)


MODE, HALF = 3, np.float32(0.5)


@vc.kernel
def with_what_is_never_compiled(out):
    i = vc.global_id(0)
    if MODE == 4:
        for name in ("a", "b"):
            with open(name) as file:
                out[i] = [file.read() for _ in range(3)]
        while nonsense:  # noqa: F821
            out.nonsense += lambda x: x
    if i < out.size:
        out[i] = i if MODE == 3 else {}
        return
        print({i: f"{i}"})


@pytest.mark.pure
def test_what_is_never_compiled_is_never_run() -> None:
    out = np.zeros(3, np.int32)
    with_what_is_never_compiled.simulate(out)
    assert out.tolist() == [0, 1, 2]


DEPTH = 0


def calling_itself(n):
    return calling_itself(n - 1) if DEPTH else n


@vc.kernel
def calls_a_function_that_names_itself(out):
    out[vc.global_id(0)] = calling_itself(3)


def test_a_function_that_names_itself_where_it_is_not_compiled(gpu: vc.Runtime) -> None:
    for launch in calls_a_function_that_names_itself, calls_a_function_that_names_itself.simulate:
        out = gpu.zeros(2, np.int32)
        launch[1, 2](out)
        assert out.numpy().tolist() == [3, 3]


class Pair:
    """Functions and constants of a class, with numpy's scalars."""

    STEP = np.int32(3)
    SIZES = (np.int32(2), 5)

    @staticmethod
    def scaled(value, by=HALF, *, plus=STEP) -> Any:
        by *= 2
        return value * by + plus


def made(step: Any) -> Any:
    first, *_ = np.int64(7), step

    @vc.kernel
    def kernel(x, out):
        i = vc.global_id(0)
        for j in range(Pair.SIZES[0]):
            out[i, j] = Pair.scaled(x[i]) + step / 2 if x[i] > Pair.STEP else Pair.STEP // Pair.SIZES[0]
        a, b = Pair.SIZES
        out[i, Pair.SIZES[0]] = Pair.scaled(i, plus=a) + (Pair.STEP == 3) + (not Pair.STEP) + b % Pair.STEP
        out[i, -1] = (Pair.STEP and i) + Pair.STEP**2 + first - Pair.STEP / Pair.SIZES[0]

    return kernel


def test_constants_and_functions_of_classes_and_closures(gpu: vc.Runtime) -> None:
    kernel, x = made(np.uint8(5)), np.arange(8, dtype=np.float32)
    out, simulated = gpu.zeros((8, 4)), np.zeros((8, 4), np.float32)
    try:
        kernel[1, 8](gpu.array(x), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    kernel.simulate[1, 8](x, simulated)
    assert np.array_equal(out.numpy(), simulated)


def filling(n: int) -> Any:
    """A kernel with `n` float32 in shared memory."""

    @vc.kernel
    def kernel(out):
        tile = vc.shared(n, vc.float32)
        tile[vc.local_id(0)] = 1
        out[vc.local_id(0)] = tile[vc.local_id(0)]

    return kernel


REFUSED = r"kernel has .*(shared memory per workgroup|invocations)"


@pytest.mark.pure
def test_limits_without_a_device() -> None:
    out = np.zeros(1024, np.float32)
    filling(8192).simulate[1, 1024](out)
    assert out.all()
    for n, invocations in ((8193, 1), (1025, 1025)):
        with pytest.raises(ValueError, match=REFUSED):
            filling(n).simulate[1, invocations](out)


def test_limits_are_those_of_the_device_of_the_arrays(gpu: vc.Runtime) -> None:
    limits = gpu.device.physical.limits
    most, n = limits["maxComputeWorkGroupInvocations"], limits["maxComputeSharedMemorySize"] // 4
    for kernel in (filling(n), filling(n).simulate):
        kernel[1, 4](gpu.zeros(4))
    for shared, invocations in ((n + 1, 1), (most + 1, most + 1)):
        for kernel in (filling(shared), filling(shared).simulate):
            with pytest.raises(ValueError, match=REFUSED):
                kernel[1, invocations](gpu.zeros(most + 1))
