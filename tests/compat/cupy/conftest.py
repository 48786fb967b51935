"""The device for programs of CuPy: they find the default runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vkcompute as vc


@pytest.fixture(autouse=True)
def _of_programs(gpu: vc.Runtime) -> Iterator[None]:
    if "shaderFloat64" not in gpu.device.features:
        pytest.skip("CuPy's floats are float64")
    vc.set_default_runtime(gpu)
    yield
    vc.set_default_runtime(None)
