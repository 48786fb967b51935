"""Shared and private memory: what a kernel may have is all usable, and more is refused before a driver sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.quirks import quirks_of

SOURCE = """
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint N = 1;
layout(constant_id = 1) const uint M = 1;
layout(binding = 0) writeonly buffer O { uint o[]; };
shared uint few[LENGTH];
shared uint more[N][M];
void main() {
    few[few.length() - 1] = 7;
    more[N - 1][M - 1] = 11;
    barrier();
    o[0] = few[few.length() - 1] + more[N - 1][M - 1];
}
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Runtime]:
    """A runtime of which a test fails if its driver sees a shader module."""

    def forbid(name: str, function: Callable[..., int]) -> Callable[..., int]:
        def call(*_: object) -> int:
            raise AssertionError("the driver saw it")

        return call if name == "vkCreateShaderModule" else function

    monkeypatch.setattr(vk, "interceptors", [forbid])
    with vc.Runtime() as runtime:
        yield runtime


def words(runtime: vc.Runtime) -> int:
    """How many uints a workgroup of the device can share."""
    most: int = runtime.device.physical.limits["maxComputeSharedMemorySize"]
    return most // 4


def code(length: int) -> bytes:
    return vc.glsl(SOURCE.replace("LENGTH", str(length)))


def test_more_than_a_workgroup_has(watched: vc.Runtime) -> None:
    most = 4 * words(watched)
    message = f"1200004 or more bytes of shared memory per workgroup; .* takes {most}; make its shared arrays smaller"
    with pytest.raises(ValueError, match=message) as caught:
        watched.kernel(code(300_000))
    assert watched.device.name in str(caught.value)
    with pytest.raises(ValueError, match=f"{most + 4} or more bytes"):
        watched.kernel(code(words(watched)))


def test_more_by_specialization(watched: vc.Runtime) -> None:
    source, most = code(1), words(watched)
    for constants in ({"N": most}, {"M": most}, {"N": most // 2, "M": 2}, {"N": 1 << 31, "M": 1 << 31}):
        nbytes = 4 * (1 + constants.get("N", 1) * constants.get("M", 1))
        with pytest.raises(ValueError, match=f" {nbytes} or more bytes"):
            watched.kernel(source, constants=constants)


@pytest.mark.parametrize("n", [1, 16])
def test_all_that_a_workgroup_has(gpu: vc.Runtime, n: int) -> None:
    """Of the same module, whose defaults alone would fit as well."""
    out = gpu.zeros(1, np.uint32)
    gpu.kernel(code(words(gpu) - 1024), constants={"N": n, "M": 1024 // n})(out, grid=1)
    assert out.numpy()[0] == 18


def test_a_default_that_is_too_much_may_be_specialized_away(gpu: vc.Runtime, watched: vc.Runtime) -> None:
    source = vc.glsl(SOURCE.replace("LENGTH", "1").replace("uint N = 1", "uint N = 300000"))
    with pytest.raises(ValueError, match="1200004 or more bytes"):
        watched.kernel(source)
    out = gpu.zeros(1, np.uint32)
    gpu.kernel(source, constants={"N": 3})(out, grid=1)
    assert out.numpy()[0] == 18


PRIVATE = """
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint N = 4;
layout(binding = 0) buffer O { uint o[]; };
uint sum(uint last) {
    uint many[N];
    for (uint i = 0; i < N; i++) many[i] = i;
    return many[last] + many[0];
}
void main() { o[0] = sum(o[0] + N - 1); }
"""


@pytest.mark.every_driver
def test_as_many_variables_as_the_compiler_takes(gpu: vc.Runtime) -> None:
    """SwiftShader aborts the process at 128 KiB per invocation. LLVM takes seconds for 8 KiB on lavapipe."""
    limit = quirks_of(gpu.device.physical).max_private_nbytes
    most = limit - 4096 if limit < 1 << 20 else 4096
    out = gpu.zeros(1, np.uint32)
    gpu.kernel(vc.glsl(PRIVATE), constants={0: most // 4})(out)
    assert out.numpy() == most // 4 - 1


@pytest.mark.every_driver
def test_more_variables_than_any_compiler_takes(watched: vc.Runtime) -> None:
    most = quirks_of(watched.device.physical).max_private_nbytes
    for n in (most // 4 + 1, 2**31 + 2):
        message = rf"\d+ or more bytes of variables per invocation; .* takes {most}; make its arrays smaller"
        with pytest.raises(ValueError, match=message):
            watched.kernel(vc.glsl(PRIVATE), constants={0: n})
