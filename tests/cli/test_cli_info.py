"""`vkcompute info`: what it shows is what the driver says, and which device is marked is the one that is used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_done import Done, without_waits

import vkcompute
from vkcompute.cli import info
from vkcompute.cli.info import plain
from vkcompute.core import physical

Run = Callable[..., Done]


def test_json_holds_everything_of_every_device(vk: Run, gpu: vkcompute.Runtime) -> None:
    report = json.loads(vk("info", "--json").out)
    used = gpu.device.physical
    shown = report["devices"][report["chosen"]]
    assert shown["name"] == used.name
    assert shown["not_chosen_because"] == []
    assert shown["limits"]["maxComputeWorkGroupCount"] == list(used.limits["maxComputeWorkGroupCount"])
    assert shown["limits"].keys() == used.limits.keys()
    assert shown["features"] == used.features
    assert set(shown["extensions"]) == used.extensions
    assert shown["properties"].keys() == used.properties.keys()
    assert bytes.fromhex(shown["properties"]["deviceUUID"]) == bytes(used.properties["deviceUUID"])
    assert [heap["nbytes"] for heap in shown["memory_heaps"]] == [heap.nbytes for heap in used.memory_heaps]
    assert len(shown["memory_types"]) == len(used.memory_types)
    assert [family["count"] for family in shown["queue_families"]] == [f.count for f in used.queue_families]


def test_versions_loader_compiler_and_cache(vk: Run, gpu: vkcompute.Runtime) -> None:
    report = json.loads(vk("info", "--json").out)["environment"]
    assert report["Python"].startswith(sys.version.split()[0])
    assert (report["vkcompute"], report["numpy"]) == (vkcompute.__version__, np.__version__)
    assert re.search(r"Vulkan \d+\.\d+\.\d+$", report["loader"])
    assert sys.platform != "linux" or "/libvulkan.so." in report["loader"], "drivers are called libvulkan_NAME.so"
    assert report["cache"].startswith(os.environ["VKCOMPUTE_CACHE_DIR"])
    assert {"vulkan", "GLSL compiler"} <= report.keys()
    head = " ".join(vk("info").out.partition("* [")[0].split())
    assert all(f"{name} {text}" in head for name, text in report.items())


def test_what_is_known_of_the_driver(vk: Run, gpu: vkcompute.Runtime) -> None:
    report = json.loads(vk("info", "--json").out)
    quirks = report["devices"][report["chosen"]]["quirks"]
    lavapipe = re.search(r"llvmpipe Mesa (\d+)", gpu.device.physical.driver)
    assert quirks["max_loop_iterations"] == (65_535 if lavapipe and int(lavapipe[1]) < 25 else None)
    assert quirks["texel_loads"] is bool(lavapipe)
    shown = " ".join(vk("info", "--device", gpu.device.name).out.split())
    said = "loops an invocation's loops silently end after 65,535 iterations in all"
    assert shown.count(said) == sum(item["quirks"]["max_loop_iterations"] == 65_535 for item in report["devices"])


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_page_keeps_within_the_terminal(
    vk: Run, gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = vk("info")
    assert done.status == 0
    assert done.err == ""
    assert max(map(len, done.out.splitlines())) <= columns
    words = done.out.split()
    used = gpu.device.physical
    assert f"* [{used.index}] {used.name}"[: columns - 3] in done.out
    assert all(name in words for name in gpu.device.features)


def test_info_opens_no_device(vk: Run, monkeypatch: pytest.MonkeyPatch, clean_handles: None) -> None:
    from vkcompute.core.device import Device

    monkeypatch.setattr(Device, "__init__", lambda *_: pytest.fail("a device was opened"))
    assert vk("info").status == 0


def test_a_device_that_is_not_there(vk: Run, gpu: vkcompute.Runtime) -> None:
    done = vk("info", "--device", "no such thing")
    assert "no device fits 'no such thing'" in done.error()
    assert gpu.device.name in done.error()
    assert f"[{gpu.device.physical.index}]" in done.out
    assert "* [" not in done.out
    report = json.loads(vk("info", "--json", "--device", "77").out)
    assert report["chosen"] is None
    assert all(device["not_chosen_because"] for device in report["devices"])


def test_the_environment_chooses_and_the_option_overrides_it(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_DEVICE", "no such thing")
    assert "no device fits 'no such thing', from VKCOMPUTE_DEVICE: " in vk("info").error()
    assert "no device fits 'nothing': " in vk("info", "--device", "nothing").error()
    assert vk("info", "--device", "0").status == 0


@pytest.mark.rotates
@pytest.mark.parametrize("wanted", ["llvm", "SWIFT", "0", "1"])
def test_of_two_drivers_one_is_chosen(
    vk_done: Callable[..., Done], all_drivers_env: dict[str, str], wanted: str
) -> None:
    done = vk_done("info", "--json", "--device", wanted, env=all_drivers_env)
    report = json.loads(done.out)
    chosen = [device for device in report["devices"] if not device["not_chosen_because"]]
    assert [device["index"] for device in chosen] == [report["chosen"]]
    assert wanted.lower() in f"{chosen[0]['name'].lower()} {chosen[0]['index']}"
    text = vk_done("info", "--device", wanted, env=all_drivers_env | {"COLUMNS": "80"}).out
    assert text.count("* [") == 1
    assert f"* [{report['chosen']}]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_no_driver(vk_done: Callable[..., Done]) -> None:
    nowhere = {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
    done = vk_done("info", env=nowhere)
    files = "VK_DRIVER_FILES=/nonexistent.json and VK_ICD_FILENAMES=/nonexistent.json"
    assert (
        f"finds no driver; /nonexistent.json does not exist; {files} restricts the choice: correct or unset it"
        in done.error()
    )
    assert done.out == ""


@pytest.mark.pure
@pytest.mark.parametrize("command", ["info", "bench", "multiply 2 a.npy -o b.npy"])
def test_no_loader(vk_done: Callable[..., Done], tmp_path: Path, command: str) -> None:
    broken = tmp_path / "broken" / "vulkan"
    broken.mkdir(parents=True)
    (broken / "__init__.py").touch()
    (broken / "_vulkan.py").write_text("raise OSError('libvulkan.so.1: cannot open shared object file')")
    done = vk_done(*command.split(), env={"PYTHONPATH": str(broken.parent)})
    assert "no Vulkan loader" in done.error()
    assert "apt install" in done.error()


def test_a_validation_mode_that_does_not_exist(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", "loud")
    assert "'loud'" in vk("info").error()


def test_a_device_too_old_is_shown_without_asking_it_further(gpu: vkcompute.Runtime) -> None:
    old = replace(gpu.device.physical, handle=None, name="Old Device", api_version=(1, 1, 0))
    text = info._text([(old, old.unfit())])
    assert "Old Device" in text
    assert "no: Vulkan 1.1.0, at least 1.2 is needed" in text


@pytest.mark.pure
@pytest.mark.parametrize(
    ("score", "chosen", "says"),
    [
        ((3, 9), (4, 1), "a device of kind k4 is preferred to k3"),
        ((4, 1), (4, 9), "it has less memory than [7]"),
        ((4, 9), (4, 9), "[7] is its equal, and has the lower index"),
    ],
)
def test_why_a_device_is_not_the_first_choice(score: tuple[int, int], chosen: tuple[int, int], says: str) -> None:
    devices: list[Any] = [SimpleNamespace(score=s, kind=f"k{s[0]}", index=i) for i, s in ((2, score), (7, chosen))]
    assert physical._behind(*devices) == says


@pytest.mark.pure
def test_what_json_cannot_hold_is_made_plain() -> None:
    value = {"a": (1, float("inf")), "deviceUUID": (255, 0), "b": {"driverUUID": (1,), "c": b"\x01\x02"}, "d": (0.5,)}
    assert plain(value) == {"a": [1, None], "deviceUUID": "ff00", "b": {"driverUUID": "01", "c": "0102"}, "d": [0.5]}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_reader_that_has_seen_enough(vk_process: Callable[..., subprocess.Popen[str]]) -> None:
    with vk_process("info", "--json", env={"PYTHONUNBUFFERED": ""}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == "{"
        process.stdout.close()  # 20 kB and more are still to come, but a pipe may hold them
        said = without_waits(process.stderr.read())
    assert said == ""
    assert process.returncode in (0, 128 + 13)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_page_that_nobody_reads(vk_done: Callable[..., Done]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert vk_done("info", stdout=pipe) == Done(128 + 13, "", "")


@pytest.mark.pure
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler on Linux")
def test_a_driver_that_crashes(vk_done: Callable[..., Done], tmp_path: Path) -> None:
    code = "#include <stdlib.h>\n__attribute__((constructor)) static void at_load(void) { abort(); }\n"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(tmp_path / "driver.so"), "-"]
    subprocess.run(command, input=code, text=True, check=True)
    manifest = tmp_path / "driver.json"
    icd = {"library_path": str(tmp_path / "driver.so"), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    done = vk_done("info", env={"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)})
    assert done.status == 2
    assert "the devices cannot be listed: the process was ended by SIGABRT; `vkcompute doctor` names" in done.err
