"""The modules that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spirv_khronos import ENVIRONMENTS, compile_source
from spirv_sources import SOURCES

# What does not exist in SPIR-V 1.0, by name of the source.
_NEWER = {"vulkan1.0": {"subgroups"}}


@pytest.fixture(scope="session")
def corpus() -> dict[str, bytes]:
    """Every source for every environment that has what it uses: "name vulkan1.1" -> module."""
    return {
        f"{name} {environment}": compile_source(source, "--target-env", environment)
        for name, source in SOURCES.items()
        for environment in ENVIRONMENTS
        if name not in _NEWER.get(environment, ())
    }


@pytest.fixture(scope="session")
def glsl() -> Callable[..., bytes]:
    """Compile a source: `glsl("multiply")`, or GLSL itself; further arguments are glslangValidator's."""

    def compile_named(source: str, *options: str) -> bytes:
        return compile_source(SOURCES.get(source, source), *(options or ("--target-env", "vulkan1.1")))

    return compile_named
