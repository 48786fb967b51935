"""Tracebacks of errors in kernels: the calls of the user, and none of the compiler's."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc


@vc.kernel
def listed(x):  # type: ignore[no-untyped-def]
    i = vc.global_id(0)
    if i < x.size:
        x[i] = [1, 2]


@vc.kernel
def failing(x):  # type: ignore[no-untyped-def]
    x[7] = 1


doubled = vc.vectorize(lambda x: [x])
summed = vc.reduce(lambda a, b: [a], 0)
CALLS: dict[str, Callable[[Any], Any]] = {
    "call": lambda x: listed(x),
    "grid": lambda x: listed[1, 1](x),
    "simulation": lambda x: listed.simulate(np.zeros(3)),
    "fault": lambda x: failing.simulate[1, 1](np.zeros(3)),
    "elementwise": lambda x: doubled(x),
    "reduction": lambda x: summed(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_the_users_calls_are_shown(gpu: vc.Runtime, name: str) -> None:
    x = gpu.zeros(3)
    with pytest.raises(vc.KernelError) as raised:
        CALLS[name](x)
    script = traceback.extract_tb(raised.value.__traceback__)
    assert [item.filename for item in script] == [__file__] * (3 if name == "fault" else 2)
    in_ipython = "\n".join(raised.value._render_traceback_())
    assert in_ipython.endswith(f"KernelError: {raised.value}")
    assert in_ipython.count("File ") == in_ipython.count(f'File "{__file__}"') == (3 if name == "fault" else 2)
    if name != "fault":  # its calls are those of the simulated kernel, for debuggers
        assert {str(item.path) for item in raised.traceback.filter(raised)} == {__file__}
        files = [item.filename for item in traceback.extract_tb(raised.tb)]
        package = Path(vc.__file__).parent
        folders = str(package / "frontend"), str(package / "jit/frontend")
        assert not [file for file in files if file.startswith(folders)], "the compiler's own calls are cut"


@pytest.mark.pure
@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="Python 3.10 has no notes")
def test_notes_are_shown() -> None:
    error = vc.KernelError("no")
    error.add_note("in chunk 3")
    assert error._render_traceback_()[-2:] == ["KernelError: no", "in chunk 3"]


def test_errors_of_the_package_itself_keep_all_calls(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.zeros(3)
    with pytest.raises(TypeError) as told:
        listed(x, 3)
    assert {item.filename for item in traceback.extract_tb(told.value.__traceback__)} == {__file__}
    monkeypatch.setattr("vkcompute.jit.launcher.target_of", None)
    with pytest.raises(TypeError, match="not callable") as fault:
        listed(x)
    assert len(traceback.extract_tb(fault.value.__traceback__)) > 2
