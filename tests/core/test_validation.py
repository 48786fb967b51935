"""Validation messages: raised at the user's own line, logged, or not asked for at all."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import vkcompute as vc
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout
from vkcompute.core.instance import layers
from vkcompute.core.validation import LAYER

RunPython = Callable[..., subprocess.CompletedProcess[str]]
VUID = "VUID-VkWriteDescriptorSet-descriptorType-00328"  # the offset is not a multiple of the device's alignment


@pytest.fixture(autouse=True)
def _layer() -> None:
    if LAYER not in layers():
        pytest.skip("the validation layer is not installed")


def misbind(runtime: vc.Runtime) -> None:
    """Point a descriptor at an offset that no device allows."""
    if os.environ.get("VKCOMPUTE_PROFILE"):
        pytest.skip("the check of the profile comes before the layer's")
    layout = PipelineLayout(runtime.device, [(0, 0, "storage_buffer", "")], 0)
    array = runtime.empty(100)
    with runtime.device.lock:
        DescriptorSets(layout, [(array.buffer, 1, 4)])


@pytest.mark.usefixtures("clean_handles")
def test_error_raises_at_the_users_line(
    monkeypatch: pytest.MonkeyPatch, validation_said: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", "error")
    with vc.Runtime() as runtime:
        with pytest.raises(vc.ValidationError) as caught:
            misbind(runtime)
        line = misbind.__code__.co_firstlineno + 7
        assert caught.value.vuid == VUID
        assert caught.value.where == f"{__file__}:{line}"
        assert str(caught.value).startswith(f"{__file__}:{line}: {VUID}: ")
        assert [VUID in message for message in validation_said()] == [True]
        assert runtime.full(3, 1.0).numpy().tolist() == [1, 1, 1], "the runtime works"
        del caught


def test_log_tells_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, validation_said: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", "log")
    with caplog.at_level(logging.DEBUG, "vkcompute.validation"), vc.Runtime() as runtime:
        misbind(runtime)
    assert [record.levelname for record in caplog.records if VUID in record.message] == ["ERROR"]
    assert len(validation_said()) == 1


@pytest.mark.parametrize("mode", ["", "off"])
def test_off_loads_no_layer(run_python: RunPython, mode: str) -> None:
    code = """
import vkcompute as vc
with vc.Runtime() as gpu:
    gpu.full(3, 1.0).numpy()
    print("khronos_validation" in open("/proc/self/maps").read() if __import__("sys").platform == "linux" else False)
"""
    done = run_python(code, env=os.environ | {"VKCOMPUTE_VALIDATION": mode})
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize("mode", ["1", "ERROR", "errors", "off "])
def test_what_is_no_mode(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", mode)
    with pytest.raises(ValueError, match=f"one of off, log, error; got {mode!r}"):
        vc.Runtime()


def test_a_layer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", "error")
    monkeypatch.setattr("vkcompute.core.validation.LAYER", "VK_LAYER_KHRONOS_none")
    with pytest.raises(vc.MissingFeature, match="apt install vulkan-validationlayers"):
        vc.Runtime()


def test_the_library_itself_is_never_the_users_line(run_python: RunPython, tmp_path: Path) -> None:
    """What the user's line is when the call comes from a thread, or from code without a file."""
    script = tmp_path / "users_script.py"
    script.write_text(
        f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parent)!r})
import vkcompute as vc
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout
gpu = vc.Runtime()
def wrong():
    layout = PipelineLayout(gpu.device, [(0, 0, "storage_buffer", "")], 0)
    try:
        DescriptorSets(layout, [(gpu.empty(1).buffer, 1, 4)])
    except vc.ValidationError as error:
        print(error.where)
wrong()
thread = threading.Thread(target=wrong)
thread.start(); thread.join()
"""
    )
    done = run_python(
        f"exec(compile(open({str(script)!r}).read(), {str(script)!r}, 'exec'))",
        env=os.environ | {"VKCOMPUTE_VALIDATION": "error"},
    )
    assert done.stdout.splitlines() == [f"{script}:10"] * 2
