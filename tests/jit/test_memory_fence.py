"""A memory fence orders what an invocation writes, for workgroups that learn of it by an atomic operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.module import Module

FENCED = True


@vc.kernel
def total(x, partial, counter, out):  # type: ignore[no-untyped-def]
    """The sum of all elements in one launch: the last workgroup adds the sums of all."""
    is_last = vc.shared(1, vc.int32)
    if vc.local_id(0) == 0:
        s = 0.0
        for k in range(16):
            s += x[16 * vc.group_id(0) + k]
        partial[vc.group_id(0)] = s
        if FENCED:
            vc.memory_fence()
        is_last[0] = vc.atomic.add(counter, 0, 1) == vc.num_groups(0) - 1
    vc.barrier()
    if is_last[0] == 1 and vc.local_id(0) == 0:
        vc.memory_fence()
        s = 0.0
        for k in range(vc.num_groups(0)):
            s += partial[k]
        out[0] = s
        counter[0] = 0


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_the_last_workgroup_sees_the_writes_of_all(gpu: Any) -> None:
    n_groups = 100 if isinstance(gpu, vc.Runtime) else 4
    x = np.arange(16 * n_groups, dtype=np.float32) % 17
    given, partial, counter, out = gpu.array(x), gpu.zeros(n_groups), gpu.zeros(1, np.int32), gpu.zeros(1)
    for _ in range(3):
        total[n_groups, 2](given, partial, counter, out)
        assert (out.numpy()[0], counter.numpy()[0]) == (x.sum(), 0)


@vc.kernel
def locked(lock, best, n, x):  # type: ignore[no-untyped-def]
    i, waits = vc.global_id(0), True
    while waits:
        if vc.atomic.compare_exchange(lock, 0, 0, 1) == 0:
            vc.memory_fence()
            if x[i] > best[0]:
                best[0] = x[i]
            n[0] += 1
            vc.memory_fence()
            vc.atomic.exchange(lock, 0, 0)
            waits = False


def test_the_holder_of_a_lock_passes_fences_while_other_subgroups_wait(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(3).permutation(64).astype(np.int32)
    lock, best, n = (gpu.zeros(1, np.int32) for _ in range(3))
    locked[1, 64](lock, best, n, gpu.array(x))
    assert (lock.numpy()[0], best.numpy()[0], n.numpy()[0]) == (0, 63, 64)


@pytest.mark.pure
def test_a_simulation_demands_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FENCED", False)
    arrays = np.ones(32, np.float32), np.zeros(2, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    with pytest.raises(vc.KernelError, match=r"a race: this reads partial\[0\]"):
        total.simulate[2, 1](*arrays)


@pytest.mark.pure
def test_a_simulation_demands_the_atomic_operation() -> None:
    @vc.kernel
    def unknown(out):  # type: ignore[no-untyped-def]
        out[vc.group_id(0)] = 1
        vc.memory_fence()
        out[1 - vc.group_id(0)] = 2

    with pytest.raises(vc.KernelError, match="a race: this writes out"):
        unknown.simulate[2, 1](np.zeros(2, np.int32))


@pytest.mark.pure
def test_what_is_written_is_coherent_in_a_kernel_with_a_fence() -> None:
    """In the memory model of GLSL, a fence orders accesses to coherent variables only."""

    def decorations(fenced: bool) -> list[int]:
        function = ir.Function("fenced")
        x, out = function.buffer("x", ir.INT32), function.buffer("out", ir.INT32)
        b = ir.Builder(function)
        me = b.builtin("global_id")
        b.store(out, me, b.load(x, me))
        if fenced:
            b.fence()
        b.store(out, me, b.const(1, ir.INT32))
        module = [*Module.parse(ir.lower(ir.optimize(function)).spirv)]
        assert fenced == any(instruction.opcode == spv.OpMemoryBarrier for instruction in module)
        results = [instruction.operands[1] for instruction in module if instruction.opcode == spv.OpDecorate]
        return [result for result in results if result in (Decoration.Coherent, Decoration.NonWritable)]

    assert decorations(True) == [Decoration.NonWritable, Decoration.Coherent]
    assert decorations(False) == [Decoration.NonWritable]
