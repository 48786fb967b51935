"""Kinds of refusal by the compilers of other vendors (docs/drivers.md), on a device with the same limit.

A module from outside is refused, and the error names what is missing. What the library computes with the same types is
lowered, and right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir, nn
from vkcompute.core.device_profile import DeviceProfile, current

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "compilers.json"
RNG = np.random.default_rng(0)
HEAD = """#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_shared_memory_block : require
layout(local_size_x = SIZE) in;
"""


def product(kind: str) -> bytes:
    """A module that multiplies numbers of a type."""
    return shader(f"layout(binding = 0) buffer A {{ {kind} a[]; }}; void main() {{ a[0] = a[0] * a[1]; }}")


def moved(kind: str) -> bytes:
    """A module that copies numbers of a type, and computes nothing."""
    return shader(f"layout(binding = 0) buffer A {{ {kind} a[]; }}; void main() {{ a[0] = a[1]; }}")


def shader(body: str, size: int = 64) -> bytes:
    return vc.glsl(HEAD.replace("SIZE", str(size)) + body)


def preserving() -> bytes:
    """A module that demands that signed zeros, infinities and NaN are kept."""
    function = ir.Function("halves", (1, 1, 1))
    out, b = function.buffer("out", ir.FLOAT32), ir.Builder(function)
    at = b.const(0, ir.UINT32)
    b.store(out, at, b.compute("mul", b.load(out, at), b.const(0.5, ir.FLOAT32)))
    return ir.lower(function, ir.Target(preserved_floats=(32,))).spirv


def multiplied(dtype: str) -> Callable[[vc.Runtime], None]:
    """Multiplies and adds numbers of a dtype by the library."""

    def check(gpu: vc.Runtime) -> None:
        x, y = RNG.integers(-9, 10, (2, 1000)).astype(dtype)
        result = vc.elementwise("x * y + x")(gpu.array(x), gpu.array(y))
        np.testing.assert_array_equal(result.numpy(), x * y + x)

    return check


def reduced_in_lines(gpu: vc.Runtime) -> None:
    """A block program with subgroups, and with memory that arrays share, where the device has both."""
    x = RNG.random((20, 300), np.float32)
    powers = np.exp(x.astype(np.float64))
    result = nn.softmax(gpu.array(x)).numpy()
    np.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@vc.kernel
def doubled(x: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        x[i] = x[i] * 2


def doubled_by_large_groups(gpu: vc.Runtime) -> None:
    """Workgroups beyond the limit, without barriers: they are divided."""
    x = gpu.array(np.arange(1000, dtype=np.float32))
    doubled(x, grid=2, local_size=512)
    np.testing.assert_array_equal(x.numpy(), np.arange(1000) * 2)


def bound(n: int) -> bytes:
    """A module with as many storage buffers."""
    buffers = "".join(f"layout(binding = {at}) buffer A{at} {{ float a{at}[]; }};" for at in range(n))
    return shader(f"{buffers} void main() {{ {''.join(f'a{at}[0] += {at};' for at in range(n))} }}")


def summed_from_many(gpu: vc.Runtime) -> None:
    """An expression of more arrays than the device binds: they are packed."""
    hosts = RNG.random((10, 1000), np.float32)
    names = [f"x{at}" for at in range(10)]
    result = vc.elementwise(" + ".join(names))(*map(gpu.array, hosts))
    np.testing.assert_allclose(result.numpy(), hosts.astype(np.float64).sum(0), rtol=1e-6)


class Case(NamedTuple):
    """A device, a module that it refuses, and what the library computes there all the same."""

    module: Callable[[], bytes]
    computes: Callable[[vc.Runtime], None]
    lacks: tuple[str, ...] = ()
    limits: Mapping[str, Any] = {}


def lacking(feature: str, module: Callable[[str], bytes], kind: str, dtype: str) -> Case:
    return Case(lambda: module(kind), multiplied(dtype), (feature,))


SUM = "layout(binding = 0) buffer A { uint a[]; }; void main() { a[0] = subgroupAdd(a[1]); }"
BLOCK = "shared Block { float x[8]; }; layout(binding = 0) buffer A { float a[]; }; void main() { x[0] = a[0]; }"
LARGE = "shared float x[5120]; layout(binding = 0) buffer A { float a[]; }; void main() { x[0] = a[0]; a[1] = x[0]; }"
EMPTY = "layout(binding = 0) buffer A { float a[]; }; void main() { a[0] = 1; }"
# What an error says -> the case.
CASES = {
    "needs the feature shaderFloat64": lacking("shaderFloat64", product, "double", "float64"),
    "needs the feature shaderInt64": lacking("shaderInt64", product, "int64_t", "int64"),
    "needs the feature shaderInt16": lacking("shaderInt16", product, "int16_t", "int16"),
    "needs the feature shaderInt8": lacking("shaderInt8", product, "int8_t", "int8"),
    "needs the feature shaderFloat16": lacking("shaderFloat16", product, "float16_t", "float16"),
    "needs the feature storageBuffer16BitAccess": lacking(
        "storageBuffer16BitAccess", moved, "uint16_t", "uint16"
    ),
    "needs the feature storageBuffer8BitAccess": lacking("storageBuffer8BitAccess", moved, "uint8_t", "uint8"),
    "needs the feature workgroupMemoryExplicitLayout": Case(
        lambda: shader(BLOCK), reduced_in_lines, ("workgroupMemoryExplicitLayout",)
    ),
    "SPIR-V extension SPV_KHR_workgroup_memory_explicit_layout needs the extension": Case(
        lambda: shader(BLOCK), reduced_in_lines, ("workgroupMemoryExplicitLayout",)
    ),
    "has 20480 or more bytes of shared memory per workgroup": Case(
        lambda: shader(LARGE), reduced_in_lines, limits={"maxComputeSharedMemorySize": 16384}
    ),
    "needs the subgroup operation": Case(
        lambda: shader(SUM), reduced_in_lines, limits={"subgroupSupportedOperations": 1}
    ),
    "a mode for floats needs the property shaderSignedZeroInfNanPreserve": Case(
        preserving, multiplied("float32"), limits={"shaderSignedZeroInfNanPreserveFloat32": 0}
    ),
    "has 10 storage buffers": Case(
        lambda: bound(10), summed_from_many, limits={"maxPerStageDescriptorStorageBuffers": 8}
    ),
    "has workgroups of": Case(
        lambda: shader(EMPTY, 512), doubled_by_large_groups, limits={"maxComputeWorkGroupInvocations": 256}
    ),
}  # fmt: skip


@contextmanager
def pretending(case: Case) -> Iterator[vc.Runtime]:
    """Opens a runtime on the device with less."""
    token = current.set(DeviceProfile(lacks=frozenset(case.lacks), limits=case.limits))
    try:
        with vc.Runtime() as runtime:
            yield runtime
    finally:
        current.reset(token)


@pytest.mark.parametrize("said", CASES)
def test_a_module_is_refused_by_name_and_the_library_computes(said: str) -> None:
    case = CASES[said]
    with pretending(case) as gpu:
        with pytest.raises((vc.MissingFeature, ValueError), match=re.escape(said)) as caught:
            gpu.kernel(case.module(), check_types=False)
        assert gpu.device.name in str(caught.value)
        case.computes(gpu)


@pytest.mark.pure
def test_every_kind_of_refusal_on_record_has_a_case() -> None:
    rows = json.loads(RECORD.read_text()).values()
    reasons = {sentence for row in rows for why in row.get("refused", ()) for sentence in why.split("; ")}
    vulkan = {reason for reason in reasons if "SPIRV-Cross" not in reason}
    assert vulkan
    others = "needs subgroups of 32 invocations", "gave no answer within"  # tests/core has the first
    cases = [re.sub(r"\d+", r"\\d+", said) for said in (*CASES, *others)]
    assert [reason for reason in sorted(vulkan) if not any(re.search(said, reason) for said in cases)] == []
