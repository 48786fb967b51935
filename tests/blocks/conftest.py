"""Programs run on the device and interpreted. Every kernel and module that they are compiled to is verified."""

from __future__ import annotations

import pytest
from barriers import check_barriers

import vkcompute
from vkcompute import ir
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect


@pytest.fixture(params=["gpu", "like_a_gpu", pytest.param("interpreted", marks=pytest.mark.pure)])
def machine(request: pytest.FixtureRequest) -> vkcompute.Runtime | None:
    """The runtime under test, as it is and with the programs of a GPU, or None for the interpreter."""
    found: vkcompute.Runtime | None = None if request.param == "interpreted" else request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = ir.lower

    def checked(function: ir.Function, *target: ir.Target) -> ir.KernelModule:
        ir.verify(function)
        check_barriers(function)
        found = lower(function, *target)
        assert found.interface == reflect(Module.parse(found.spirv))
        return found

    monkeypatch.setattr(ir, "lower", checked)
