"""Messages and assertions of block programs, on the device and interpreted."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import asserting, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError


@triton.jit
def printing(x_ptr, n, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    pid = tl.program_id(0)
    if pid > 0:
        tl.device_print("x {}:", x)
        print("both", pid, n)
        tl.device_print("hex", n, hex=True)
        tl.device_print("done")


def test_prints(machine: vkcompute.Runtime | None, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(4, dtype=np.float32).reshape(2, 2) + 0.5
    run(machine, printing, (3,), (x, 255), M=2, N=2)
    if machine is not None:
        machine.wait()
    wanted = []
    for pid in (1, 2):
        wanted += [f"pid ({pid}, 0, 0) idx ({m}, {n}) x {{}}: {x[m, n]:f}" for m in range(2) for n in range(2)]
        wanted += [
            f"pid ({pid}, 0, 0) idx () both: (operand 0) {pid}",
            f"pid ({pid}, 0, 0) idx () both: (operand 1) 255",
        ]
        wanted += [f"pid ({pid}, 0, 0) idx () hex: 0x000000ff", f"pid ({pid}, 0, 0) done"]
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(wanted)
    assert [line[:8] for line in lines] == ["pid (1, "] * 8 + ["pid (2, "] * 8


@triton.jit
def large_prints(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.device_print("", tl.sum(x.reshape(N // 8, 8), 0))


def test_each_element_is_printed_once_in_order(
    machine: vkcompute.Runtime | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(machine, large_prints, (2,), (np.arange(2048, dtype=np.int32), 2048), num_warps=4)
    if machine is not None:
        machine.wait()
    sums = np.arange(2048).reshape(256, 8).sum(0)
    wanted = [f"pid ({pid}, 0, 0) idx ({n}): {each}" for pid in range(2) for n, each in enumerate(sums)]
    assert capsys.readouterr().out.splitlines() == wanted


def test_assertions(machine: vkcompute.Runtime | None) -> None:
    x = np.array([0, 1, 2, 99, 4, 5, 6, 7], np.int32)
    (result,) = run(machine, asserting, (2,), (x, 50), N=4)
    np.testing.assert_array_equal(result, x + 1)
    with pytest.raises(
        KernelError, match=r"assertion failed: x is {small} in program \(1, 0, 0\) at element \(2\)"
    ) as caught:
        run(machine, asserting, (2,), (x, 6), N=4)
    assert "tl.device_assert(x < n" in str(caught.value)
    with pytest.raises(KernelError, match=r"assertion failed: sum in program \(0, 0, 0\)"):
        run(machine, asserting, (2,), (x - 100, 50), N=4)


@triton.jit
def unchecked(x_ptr, n):
    tl.device_assert(n < 3)
    tl.store(x_ptr, n)


@triton.jit
def rising(a, b):
    tl.device_assert(a + b < 600, "too much")
    tl.device_assert(a + b >= 0)
    return a + b


@triton.jit(debug=True)
def sums_of_checked(x_ptr, out_ptr, N: tl.constexpr, along: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    if along == "scan":
        tl.store(out_ptr + at, tl.associative_scan(x, 0, rising))
    else:
        tl.store(out_ptr + at, tl.reduce(x, 0, rising) + at * 0)


@pytest.mark.parametrize("along", ["scan", "reduce"])
def test_assertions_in_functions_that_combine(machine: vkcompute.Runtime | None, along: str) -> None:
    for n in (16, 512):
        x, out = np.ones(n, np.int32), np.zeros(n, np.int32)
        (_, sums) = run(machine, sums_of_checked, (1,), (x, out), N=n, along=along)
        np.testing.assert_array_equal(sums, np.cumsum(x) if along == "scan" else np.full(n, n))
        with pytest.raises(KernelError, match="too much in program"):
            run(machine, sums_of_checked, (1,), (x * 100, out), N=n, along=along)
    with pytest.raises(KernelError, match=r"assertion failed in program .*\n.*a \+ b >= 0"):
        run(machine, sums_of_checked, (1,), (np.full(8, -1, np.int32), out), N=8, along=along)


@triton.jit
def branched(a, b):
    if a > b:
        tl.device_assert(b > 0)
    return a + b


@triton.jit(debug=True)
def sum_of_branched(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, N)), 0, branched))


@pytest.mark.pure
def test_assertions_in_branches_of_functions_that_combine() -> None:
    with pytest.raises(KernelError, match="is in no branch or loop; write its condition as"):
        run(None, sum_of_branched, (1,), (np.ones(4, np.int32), np.zeros(1, np.int32)), N=4)


def test_assertions_are_checked_on_demand(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.zeros(1, np.int32)
    unchecked[(1,)](x, 5)
    assert x.numpy()[0] == 5
    monkeypatch.setenv("TRITON_DEBUG", "1")
    unchecked[(2,)](x, 2)
    with pytest.raises(KernelError, match=r"assertion failed in program \(0, 0, 0\)"):
        unchecked[(3,)](x, 5).result()


def test_assertions_are_checked_by_a_keyword_of_the_launch(gpu: vkcompute.Runtime) -> None:
    x = gpu.zeros(1, np.int32)
    unchecked[(1,)](x, 7, debug=False)
    with pytest.raises(KernelError, match=r"assertion failed in program \(0, 0, 0\)"):
        unchecked[(1,)](x, 7, debug=True).result()
    unchecked[(1,)](x, 8)
    assert x.numpy()[0] == 8


@triton.jit
def printed_text(x_ptr):
    tl.device_print("x", "y")


@triton.jit
def untitled(x_ptr):
    tl.device_print(tl.program_id(0))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message"),
    [(printed_text, "takes numbers and blocks after its text; got 'y'"), (untitled, "takes a text first; got int32")],
)
def test_errors_of_messages(program: triton.JITFunction, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        program.interpret[(1,)](np.zeros(4, np.int32))


@triton.jit
def in_hexadecimal(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.device_print("x: ", x)
    tl.device_print("h", x.to(tl.float16), hex=True)
    tl.device_print("i ", (-x).to(tl.int8), hex=True)
    tl.device_print("p", x_ptr + tl.arange(0, N))


@pytest.mark.pure
def test_prints_have_the_text_of_triton(capsys: pytest.CaptureFixture[str]) -> None:
    in_hexadecimal.interpret[(1,)](np.arange(16, dtype=np.float32), N=16)
    lines = capsys.readouterr().out.splitlines()
    place = "pid (0, 0, 0) idx ( 2) "
    assert [line for line in lines if "( 2)" in line] == [
        *(f"{place}x: 2.000000", f"{place}h: 0x4000", f"{place}i: 0xfe", f"{place}p: 0x0000000000000008")
    ]
