"""The pipeline cache on disk: found again, and never in the way."""

from __future__ import annotations

import functools
import logging
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vkcompute as vc
from vkcompute import disk
from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice

SOURCE = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; };
void main() { a[gl_GlobalInvocationID.x] += NUMBER; }
"""


class Keeping:
    """A driver that keeps pipelines in its cache, as neither lavapipe 22 nor SwiftShader does: a token for each."""

    def __init__(self, physical: PhysicalDevice) -> None:
        identity = physical.vendor_id, physical.device_id, physical.pipeline_cache_uuid
        self.header = struct.pack("<IIII16s", 32, 1, *identity)  # VkPipelineCacheHeaderVersionOne
        self.body = b""
        self.made = 0
        self.given: list[bytes] = []  # what each cache was created with
        self.refuses = False  # data, when a cache is created

    def wrap(self, name: str, function: Callable[..., int]) -> Callable[..., int]:
        """An interceptor for `vk.interceptors`."""
        calls = {
            "vkCreatePipelineCache": self.create,
            "vkCreateComputePipelines": self.pipeline,
            "vkGetPipelineCacheData": self.read,
        }
        return functools.partial(calls[name], function) if name in calls else function

    def create(self, function: Callable[..., int], device: Any, info: Any, *args: Any) -> int:
        given = bytes(vk.ffi.buffer(info.pInitialData, info.initialDataSize))
        if given and self.refuses:
            return -3
        self.given.append(given)
        self.body, self.made = given[32:], 0
        return function(device, info, *args)

    def pipeline(self, function: Callable[..., int], *args: Any) -> int:
        token = f"<pipeline {self.made}>".encode()
        self.made += 1
        self.body += b"" if token in self.body else token
        return function(*args)

    def read(self, _function: Callable[..., int], _device: Any, _cache: Any, size: Any, data: Any) -> int:
        content = self.header + self.body
        if data != vk.NULL:
            vk.ffi.memmove(data, content, len(content))
        size[0] = len(content)
        return 0


@pytest.fixture
def driver(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> Keeping:
    driver = Keeping(gpu.device.physical)
    monkeypatch.setattr(vk, "interceptors", [driver.wrap])
    return driver


@pytest.fixture
def folder(driver: Keeping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder that the cache is to be written to."""
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    return tmp_path / "vkcompute" / "pipelines"


@pytest.fixture(scope="module")
def spirv() -> list[bytes]:
    return [vc.glsl(SOURCE, defines={"NUMBER": number}) for number in range(3)]


def use(spirv: list[bytes]) -> None:
    """Open a runtime, make pipelines, launch them, close it."""
    with vc.Runtime() as gpu:
        a = gpu.zeros(64)
        for code in spirv:
            gpu.kernel(code)(a)
        assert set(a.numpy().tolist()) == {float(sum(range(len(spirv))))}


def entry(folder: Path) -> Path:
    """The only file of the cache."""
    (path,) = folder.iterdir()
    return path


def test_written_at_close_and_read_when_opened(driver: Keeping, folder: Path, spirv: list[bytes]) -> None:
    use(spirv[:2])
    written = disk.read_cached(entry(folder))
    assert written == driver.header + b"<pipeline 0><pipeline 1>"
    use(spirv)
    assert driver.given == [b"", written]
    assert disk.read_cached(entry(folder)) == written + b"<pipeline 2>"


def damage_header(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


# What the file may hold: (whether its checksum is right, its content made of the good content).
ENTRIES: dict[str, tuple[bool, Callable[[bytes], bytes]]] = {
    "nothing": (False, lambda data: b""),
    "noise": (False, lambda data: disk.MAGIC + os.urandom(1000)),
    "half": (False, lambda data: data[: len(data) // 2]),
    "a bit flipped": (False, lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "too short for a header": (True, lambda data: data[:31]),
    "nothing, signed": (True, lambda data: b""),
    "another version": (True, lambda data: damage_header(data, 4)),
    "another vendor": (True, lambda data: damage_header(data, 8)),
    "another device": (True, lambda data: damage_header(data, 12)),
    "another driver": (True, lambda data: damage_header(data, 16)),
    "a header of another length": (True, lambda data: struct.pack("<I", 48) + data[4:]),
}


@pytest.mark.parametrize("what", ENTRIES)
def test_what_is_no_cache_of_this_driver_is_discarded(
    driver: Keeping, folder: Path, spirv: list[bytes], what: str
) -> None:
    use(spirv[:1])
    path = entry(folder)
    signed, change = ENTRIES[what]
    content = disk.read_cached(path)
    assert content is not None
    if signed:
        disk.write_cached(path, change(content))
    else:
        path.write_bytes(change(path.read_bytes()))
    use(spirv)
    assert driver.given == [b"", b""]
    assert disk.read_cached(entry(folder)) == driver.header + driver.body, "a good one is written in its place"


def test_a_driver_that_refuses_the_data(
    driver: Keeping, folder: Path, spirv: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    use(spirv[:1])
    driver.refuses = True
    with caplog.at_level(logging.WARNING, "vkcompute.core"):
        use(spirv)
    assert "discarding the pipeline cache" in caplog.text
    assert "VK_ERROR_INITIALIZATION_FAILED" in caplog.text
    assert driver.given == [b"", b""]


def test_a_folder_that_cannot_be_written(
    driver: Keeping, tmp_path: Path, spirv: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(blocked / "cache"))
    use(spirv)
    assert blocked.read_text() == ""


def test_an_entry_that_is_a_folder(folder: Path, spirv: list[bytes]) -> None:
    use(spirv[:1])
    path = entry(folder)
    path.unlink()
    path.mkdir()
    use(spirv)
    assert path.is_dir()


def test_nothing_is_written_where_nothing_was_added(folder: Path, spirv: list[bytes]) -> None:
    use(spirv)
    before = [path.stat().st_mtime_ns for path in folder.glob("*")]
    use(spirv)
    assert [path.stat().st_mtime_ns for path in folder.glob("*")] == before


def test_processes_that_write_at_once(driver: Keeping, folder: Path, spirv: list[bytes], tmp_path: Path) -> None:
    for i, code in enumerate(spirv):
        (tmp_path / f"{i}.spv").write_bytes(code)
    use(spirv[:1])
    path = entry(folder)
    whole = disk.read_cached(path)
    code = f"""
import vkcompute as vc
from vkcompute import disk
from vkcompute.core.pipeline_cache import PipelineCache
PipelineCache.save = lambda self: [disk.write_cached(self._path, {whole!r}) for _ in range(100)]
with vc.Runtime() as gpu:
    a = gpu.zeros(64)
    for i in range(3):
        gpu.kernel(f"{tmp_path}/{{i}}.spv")(a)
    assert a.numpy()[0] == 3
"""
    processes = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        assert disk.read_cached(path) == whole, "a reader sees it whole at every moment"
    assert [process.communicate()[1] for process in processes] == [""] * 3
    use(spirv)
