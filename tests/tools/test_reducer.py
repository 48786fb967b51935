"""Reduction of kernels: valid candidates, small results, and faults that are told from each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.function import walk

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import reduce_kernel  # noqa: E402
from reducer import clone, reduced, size_of  # noqa: E402
from results import are_right, is_approximate, unseen  # noqa: E402

KERNELS = (1, 5, 9)


def codes(function: ir.Function) -> list[str]:
    return [op.code for op in walk(function.body)]


@pytest.mark.pure
@pytest.mark.parametrize("number", KERNELS)
def test_copies_are_equal_and_independent(number: int) -> None:
    function = reduce_kernel.integers(number).function
    text, copy = ir.text(function), clone(function)
    assert ir.text(copy) == text
    ir.verify(copy)
    ir.lower(copy)
    assert ir.text(function) == text


@pytest.mark.pure
@pytest.mark.parametrize(("number", "needed"), [(5, ("loop", "xor")), (9, ("loop", "xor", "select")), (9, ("div",))])
def test_kernels_are_reduced_by_nine_tenths(number: int, needed: tuple[str, ...]) -> None:
    subject = reduce_kernel.integers(number)
    n_candidates = 0

    def fails(function: ir.Function) -> bool:
        nonlocal n_candidates
        n_candidates += 1
        ir.verify(function)
        return {*needed} <= {*codes(function)}

    assert fails(clone(subject.function))
    result = reduced(subject.function, fails)
    assert {*needed} <= {*codes(result)}
    assert size_of(result) <= size_of(subject.function) / 10
    assert n_candidates < 1000
    ir.lower(result)


@pytest.mark.pure
def test_one_operation_in_branches_and_loops_is_left_alone() -> None:
    """A store needs no loop and no branch around it, and its operands need no other operations."""
    subject = reduce_kernel.integers(9)
    result = reduced(subject.function, lambda function: {"sub", "store"} <= {*codes(function)})
    assert codes(result) == ["sub", "store"]


@pytest.mark.pure
def test_what_vulkan_leaves_undefined_is_no_fault() -> None:
    function = ir.Function("divides", (1, 1, 1))
    out = function.buffer("out", ir.INT32)
    b, n = ir.Builder(function), function.push("n", ir.INT32)
    b.store(out, b.const(0, ir.UINT32), b.compute("div", b.const(7, ir.INT32), n))
    subject = reduce_kernel.Subject(function, {"out": np.zeros(1, np.int32)}, {"n": 2}, 1)
    assert reduce_kernel.expected(subject, function)["out"].tolist() == [3]
    with pytest.raises(reduce_kernel.Undefined, match="div by 0"):
        reduce_kernel.expected(subject._replace(pushes={"n": 0}), function)


PLANTS = """
import os, signal, time
import numpy as np

SUBTRACTIONS, XORS = 130, 198  # OpISub, OpBitwiseXor; OpIAdd is 128

def instructions(words):
    at = 5
    while at < len(words):
        yield at, int(words[at]) & 0xFFFF
        at += int(words[at]) >> 16

def has(spirv, opcode):
    return opcode in dict(map(reversed, instructions(np.frombuffer(spirv, np.uint32))))

def crashes(spirv):
    if has(spirv, XORS):
        os.kill(os.getpid(), signal.SIGSEGV)
    return spirv

def hangs(spirv):
    if has(spirv, XORS):
        time.sleep(60)
    return spirv

def miscompiles(spirv):
    words = np.frombuffer(spirv, np.uint32).copy()
    for at, opcode in list(instructions(words)):
        if opcode == SUBTRACTIONS:
            words[at] -= np.uint32(2)
    return words.tobytes()
"""


@vc.kernel
def mixed(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    total = 0
    for k in range(x[i] % 3):
        total += x[i] - 5
        total = total * 3 ^ k
    out[i] = total


@pytest.fixture
def subject() -> reduce_kernel.Subject:
    arrays = [np.arange(8, dtype=np.int32) * 7, np.zeros(8, np.int32)]
    return reduce_kernel.subject_of(mixed.__wrapped__, arrays, [], 8)


@pytest.mark.pure
def test_a_region_that_a_branch_gives_way_to_is_halved_anew() -> None:
    """A fault in the innermost of nested branches needs few candidates: not one per operation around it."""
    subject, sizes = reduce_kernel.integers(5), list[int]()

    def fails(function: ir.Function) -> bool:
        sizes.append(size_of(function))
        return {"loop", "xor"} <= {*codes(function)}

    result = reduced(subject.function, fails)
    assert size_of(result) <= 6
    assert len(sizes) < 80


@pytest.mark.pure
def test_a_hang_that_the_whole_limit_does_not_confirm_is_reduced_anew(subject: reduce_kernel.Subject) -> None:
    class Slow:
        candidate_s, limit_s = 1.0, 9.0

        def __call__(self, function: ir.Function) -> bool:
            return self.candidate_s < self.limit_s or "xor" in codes(function)

        def holds(self, function: ir.Function) -> bool:
            return "xor" in codes(function)

    fault: Any = Slow()
    assert codes(reduce_kernel._reduced(subject, fault)) == ["xor", "store"]


@pytest.mark.rotates
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_faults_are_told_from_each_other(gpu: vc.Runtime, subject: reduce_kernel.Subject, tmp_path: Path) -> None:
    (tmp_path / "plants.py").write_text(PLANTS)
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert reduce_kernel.Fault(subject, 120, env=env).outcome == reduce_kernel.RIGHT
    assert reduce_kernel.Fault(subject, 120, "plants:crashes", env).outcome == "crashed by SIGSEGV"
    assert reduce_kernel.Fault(subject, 3, "plants:hangs", env).outcome == "hung"
    fault = reduce_kernel.Fault(subject, 120, "plants:miscompiles", env)
    assert fault.outcome == "wrong"
    without = clone(subject.function)
    without.body.ops = []
    assert not fault(without)


@vc.kernel
def straight(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    a = x[i] * 3 + i
    b = (a * x[i] + 7) * (a + 5) - a
    c = (b * a + x[i]) * (b + 9) - (a - i)
    d = (c - a) * (b + c) - x[i] * c
    out[i] = (d ^ b) * (c + 3) - d * a


@pytest.mark.rotates
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("plant", "outcome"), [("crashes", "crashed by SIGSEGV"), ("hangs", reduce_kernel.HUNG)])
def test_crashes_and_hangs_are_reduced_by_nine_tenths(
    gpu: vc.Runtime, tmp_path: Path, plant: str, outcome: str
) -> None:
    """A hang's candidates get a limit of their own, not that of the kernel, and the result is confirmed by that."""
    (tmp_path / "plants.py").write_text(PLANTS)
    arrays = [np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)]
    subject = reduce_kernel.subject_of(straight.__wrapped__, arrays, [], 8)
    fault = reduce_kernel.Fault(subject, 3, f"plants:{plant}", os.environ | {"PYTHONPATH": str(tmp_path)})
    assert fault.outcome == outcome
    assert fault.candidate_s <= fault.limit_s == 3
    result = reduced(subject.function, fault)
    assert "xor" in codes(result)
    assert size_of(result) <= size_of(subject.function) / 10
    assert fault.holds(clone(result))


def _miscompiled(gpu: vc.Runtime, subject: reduce_kernel.Subject) -> Callable[[ir.Function], bool]:
    """Tells whether a device adds where a kernel subtracts, and the results are seen to be wrong."""
    plants: dict[str, Any] = {}
    exec(PLANTS, plants)

    def fails(function: ir.Function) -> bool:
        try:
            wanted = reduce_kernel.expected(subject, function)
        except reduce_kernel.Undefined:
            return False
        arrays = [gpu.array(array) for array in subject.arrays.values()]
        spirv = plants["miscompiles"](ir.lower(function).spirv)
        gpu.kernel(spirv, name="candidate", check_types=False)(*arrays, grid=1).result()
        return any((array.numpy() != one).any() for array, one in zip(arrays, wanted.values(), strict=True))

    return fails


def test_a_wrong_result_of_this_device_is_reduced_by_nine_tenths(gpu: vc.Runtime) -> None:
    subject = reduce_kernel.subject_of(
        straight.__wrapped__, [np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)], [], 8
    )
    fails = _miscompiled(gpu, subject)
    assert fails(clone(subject.function))
    result = reduced(subject.function, fails)
    assert "sub" in codes(result)
    assert size_of(result) <= size_of(subject.function) / 10


@pytest.mark.pure
def test_an_operation_whose_result_only_its_loop_carries_is_left_alone(subject: reduce_kernel.Subject) -> None:
    """The loop does not end at the operation: a hang needs no result."""
    result = reduced(subject.function, lambda function: "xor" in codes(function))
    assert codes(result) == ["xor", "store"]


@pytest.mark.pure
@pytest.mark.parametrize(("env", "plant"), [("/nonexistent.json", ""), (None, "no_such_module:function")])
def test_what_is_wrong_before_the_kernel_is_no_fault(
    subject: reduce_kernel.Subject, env: str | None, plant: str
) -> None:
    drivers = {} if env is None else {"VK_DRIVER_FILES": env, "VK_ICD_FILENAMES": env}
    with pytest.raises(reduce_kernel.SetupError, match="without operations fails, too"):
        reduce_kernel.Fault(subject, 120, plant, os.environ | drivers)


@pytest.mark.pure
def test_wrong_arguments_are_named_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.py"
    file.write_text("")
    out = ["--out", str(tmp_path / "out")]
    assert reduce_kernel.main(["integer", "17", *out]) == 2
    assert "the kind that can be reduced is integers" in capsys.readouterr().err
    assert reduce_kernel.main([str(file), *out]) == 2
    assert "no function subject()" in capsys.readouterr().err
    assert reduce_kernel.main(["integers", "17", "--out", str(file / "out")]) == 2
    assert "name another folder" in capsys.readouterr().err


@pytest.mark.pure
@pytest.mark.parametrize(
    ("result", "wanted", "approximate", "right"),
    [
        ([np.nan, 1, np.inf], [np.nan, 1, np.inf], False, True),
        ([np.nan], [1], True, False),
        ([1], [np.nan], True, False),
        ([np.inf], [1], True, False),
        ([-np.inf], [np.inf], True, False),
        ([0.84147], [0.841471], True, True),
        ([0.84147], [0.841471], False, False),
        ([0.85], [0.841471], True, False),
        ([1 + 2**-22], [1], False, True),
        ([0], [1e-40], False, True),
    ],
)
def test_a_right_driver_is_not_wrong(result: list[float], wanted: list[float], approximate: bool, right: bool) -> None:
    arrays = np.array(result, np.float32), np.array(wanted, np.float32)
    assert are_right(*arrays, approximate=approximate) is right
    assert not are_right(np.array([1]), np.array([2]), approximate=True)


@vc.kernel
def sums(x: Any, out: Any) -> None:
    i = vc.local_id(0)
    shared = vc.shared(8, vc.int32)
    shared[i] = x[i]
    vc.barrier()
    vc.atomic.add(out, 0, shared[7 - i])


@vc.kernel
def tickets(x: Any, out: Any) -> None:
    i = vc.local_id(0)
    out[i] = vc.atomic.add(x, 0, 1)


@pytest.mark.pure
def test_what_the_driver_decides_is_named(subject: reduce_kernel.Subject) -> None:
    assert not unseen(subject.function)
    assert not is_approximate(subject.function)
    sines = ir.Function("sines", (1, 1, 1))
    out, b = sines.buffer("out", ir.FLOAT32), ir.Builder(sines)
    b.store(out, b.const(0, ir.UINT32), b.compute("sin", sines.push("x", ir.FLOAT32)))
    assert is_approximate(sines)
    integers = [np.zeros(8, np.int32)] * 2
    assert not unseen(reduce_kernel.subject_of(sums.__wrapped__, integers, [], 8).function)
    ordered = reduce_kernel.subject_of(tickets.__wrapped__, integers, [], 8).function
    assert unseen(ordered) == "results of atomic operations"


@pytest.mark.pure
def test_a_workgroup_waits_at_barriers_and_shares_memory() -> None:
    x = np.arange(8, dtype=np.int32) ** 2
    subject = reduce_kernel.subject_of(sums.__wrapped__, [x, np.zeros(8, np.int32)], [], 8)
    assert reduce_kernel.expected(subject, subject.function)["out"].tolist() == [x.sum(), *[0] * 7]


@vc.kernel
def neighbours(x: Any, out: Any) -> None:
    i = vc.local_id(0)
    shared = vc.shared(8, vc.int32)
    shared[i] = x[i] * 3 + i
    vc.barrier()
    a = (shared[7 - i] * x[i] + 7) * (x[i] + 5) - shared[7 - i]
    b = (a * x[i] + shared[i ^ 1]) * (a + 9) - (a - i)
    vc.barrier()
    shared[i] = (b ^ a) * (b + 3)
    vc.barrier()
    vc.atomic.add(out, i % 2, shared[i ^ 3] * a + b * (x[i] + 1))


@pytest.fixture
def neighbouring() -> reduce_kernel.Subject:
    return reduce_kernel.subject_of(
        neighbours.__wrapped__, [np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)], [], 8
    )


@pytest.mark.pure
@pytest.mark.parametrize("code", ["barrier", "store"])
def test_a_workgroup_in_disorder_is_undefined(neighbouring: reduce_kernel.Subject, code: str) -> None:
    """Without its last barrier two invocations race; without its first store, shared memory is read unwritten."""
    function = clone(neighbouring.function)
    named = [op for op in function.body.ops if op.code == code]
    function.body.ops.remove(named[-1] if code == "barrier" else named[0])
    with pytest.raises(reduce_kernel.Undefined, match={"barrier": "a race", "store": "no invocation"}[code]):
        reduce_kernel.expected(neighbouring, function)


@pytest.mark.rotates
def test_a_wrong_result_of_a_workgroup_is_reduced_by_nine_tenths(
    gpu: vc.Runtime, neighbouring: reduce_kernel.Subject
) -> None:
    fails = _miscompiled(gpu, neighbouring)
    assert fails(clone(neighbouring.function))
    result = reduced(neighbouring.function, fails)
    assert "sub" in codes(result)
    assert size_of(result) <= size_of(neighbouring.function) / 10


@pytest.mark.pure
def test_last_lines_of_one_fault_are_equal() -> None:
    lines = (b"x\nerror: line 17 at 0x7fA0 in /tmp/a1/in.npz", b"error: line 9 at 0x55 in /tmp/bb/in.npz\n")
    one, other = (
        reduce_kernel._last_line(line, f"/tmp/{name}") for line, name in zip(lines, ("a1", "bb"), strict=True)
    )
    assert one == other == "error: line # at # in FOLDER/in.npz"
    assert reduce_kernel._last_line(b"", "/tmp") == ""
