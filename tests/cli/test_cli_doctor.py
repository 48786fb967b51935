"""`vkcompute doctor`: what it finds on this machine, on broken ones, and on machines on paper."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_done import Done

import vkcompute
from vkcompute import child_process
from vkcompute.child_process import Finished
from vkcompute.cli import checkup, doctor, trial
from vkcompute.cli import trials as trials_of_doctor
from vkcompute.cli.checkup import FAILED, NOTE, OK
from vkcompute.cli.trial import END
from vkcompute.cli.trials import in_this_process

Run = Callable[..., Done]
CPU = {"index": 0, "name": "llvmpipe", "kind": "cpu", "usable": True, "vulkan": "1.3.0", "reasons": [], "lacks": [],
       "emulated": []}  # fmt: skip
GPU = CPU | {"name": "Iris", "kind": "integrated", "lacks": ["float64"]}
EQUAL = [{"trial": "transfer", "equal": True}, {"trial": "multiply", "equal": True}]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[checkup.Finding]]:
    """The findings on a machine with these devices, on which computations end like this."""

    def findings(devices: list[Any], trials: list[Any] = EQUAL, status: int = 0, said: str = "") -> list[Any]:
        def run(_main: Any, name: str, *_: str, **__: Any) -> Finished:
            lines, code = (trials, status) if name == "computations" else ([{"layers": []}, *devices], 0)
            lines = [*lines, *[END] * (code == 0)]
            return Finished(code, b"".join(json.dumps(line).encode() + b"\n" for line in lines), said.encode())

        monkeypatch.setattr(trials_of_doctor, "run_python", run)
        checkup.device_listing.cache_clear()
        return [*checkup.devices(), *checkup.computations()]

    return findings


def test_this_machine_works(vk_done: Run, gpu: vkcompute.Runtime) -> None:
    done = vk_done("doctor")
    assert done.status == 0, done.out
    assert done.out.endswith("Whew. That worked.\n")
    lines = [line for line in done.out.splitlines() if gpu.device.name in line]
    assert ", chosen" in lines[0]
    assert "transfer, multiply, kernel in Python, reduction: equal to NumPy" in done.out
    assert [line for line in done.err.splitlines() if ": waiting for " not in line] == []  # on a busy machine


@pytest.mark.parametrize("content", [None, "", '{"ICD": {"libr', '{"ICD": {"library_path": "/no/driver.so"}}'])
def test_broken_manifests_alone_and_beside_a_good_one(vk_done: Run, tmp_path: Path, content: str | None) -> None:
    broken = tmp_path / "broken.json"
    if content is not None:
        broken.write_text(content)
    done = vk_done("info", env={"VK_DRIVER_FILES": str(broken)})
    assert done.status == 2
    assert f"{broken} " in done.error()
    assert f"VK_DRIVER_FILES={broken}" in done.error()
    good = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if good:
        done = vk_done("info", env={"VK_DRIVER_FILES": os.pathsep.join([str(broken), good])})
        assert done.status == 0, done.err


@pytest.mark.pure
def test_failures_as_text_and_as_json(vk: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "none.json"))
    monkeypatch.setattr(doctor, "CHECKS", (checkup.packages, lambda: checkup.manifests(os.environ)))
    done = vk("doctor", "--json")
    assert done.status == 2
    report = json.loads(done.out)
    assert not report["works"]
    [failed] = [item for item in report["findings"] if item["mark"] == FAILED]
    assert failed["text"] == f"{tmp_path / 'none.json'} does not exist"
    assert "VK_DRIVER_FILES" in failed["remedy"]
    done = vk("doctor")
    assert done.status == 2
    assert done.out.endswith("\n1 check failed; the remedies are above.\n")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: [checkup.Finding(OK, "VK_ADD_DRIVER_FILES", "x")],))
    assert "VK_ADD_DRIVER_FILES x" in vk("doctor").out, "long names, too, end with a space"
    monkeypatch.setattr(doctor, "CHECKS", (checkup.packages, lambda: checkup.manifests(os.environ)))
    done = vk("doctor")
    assert f"FAILED driver manifest {failed['text']}\n       remedy:         {failed['remedy']}\n" in done.out


@pytest.mark.pure
def test_a_library_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_text("no library")
    manifest = tmp_path / "driver.json"
    manifest.write_text(json.dumps({"ICD": {"library_path": "./lib.so"}}))
    [finding] = checkup.manifests({"VK_ICD_FILENAMES": str(manifest)})
    assert finding.mark == FAILED
    assert f"{manifest} names a library that does not load: " in finding.text


@pytest.mark.pure
def test_devices_on_paper(machine: Callable[..., list[checkup.Finding]]) -> None:
    *_, device, trials = machine([CPU])
    assert (device.mark, device.remedy[:9]) == (NOTE, "for a GPU"), "a CPU in place of a GPU is told"
    assert trials.text == "transfer, multiply: equal to NumPy"
    behind = CPU | {"index": 1, "reasons": ["a device of kind integrated is preferred to cpu"]}
    findings = machine([GPU, behind])
    assert all(finding.mark == OK for finding in findings)
    assert "chosen: no other comes before it; kernels take no float64" in findings[1].text
    assert "not chosen: a device of kind integrated" in findings[2].text
    assert machine([GPU])[1].text.endswith("chosen: the only one; kernels take no float64")
    _, _, failed, *_ = machine([GPU | {"reasons": ["its name has no 'RTX'"]}])
    assert (failed.mark, failed.remedy) == (FAILED, "correct or unset VKCOMPUTE_DEVICE")
    assert [item.mark for item in machine([])] == [OK, FAILED]


@pytest.mark.pure
def test_wrong_results_and_crashes_on_paper(machine: Callable[..., list[checkup.Finding]]) -> None:
    wrong = [{"trial": "transfer", "equal": True}, {"trial": "reduction", "equal": False}]
    [*_, failed] = machine([GPU], wrong)
    assert (failed.mark, failed.text) == (FAILED, "reduction: the result differs from NumPy's")
    [*_, failed] = machine([GPU], EQUAL[:1], status=-11)
    assert (failed.mark, failed.text) == (FAILED, "a computation failed: the process was ended by SIGSEGV")
    traceback = 'Traceback:\n  File "x.py"\n    call()\nvkcompute.errors.DeviceLost: it is lost\nin chunk 0\n'
    [*_, failed] = machine([GPU], EQUAL[:1], status=1, said=traceback)
    assert failed.text == "a computation failed: DeviceLost: it is lost"
    unbuilt = "vkcompute.errors.SpirvError: the built-in kernels are not compiled; run `python build_shaders.py`"
    [*_, failed] = machine([GPU], [], status=1, said=unbuilt)
    assert failed.text == "a computation failed: SpirvError: the built-in kernels are not compiled"
    assert failed.remedy == "run `python build_shaders.py`"
    said = machine([GPU], said="ERROR: loader_scanned_icd_add: Could not load libx.so\nERROR: loader: no\n")
    assert [item.text for item in said if item.subject == "loader says"][1] == "ERROR: loader: no"


@pytest.mark.pure
def test_a_machine_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(trial.ctypes, "CDLL", fail)
    [finding] = checkup.loader(in_this_process)
    assert finding.mark == FAILED
    assert "apt install libvulkan1" in finding.remedy


@pytest.mark.pure
def test_files_that_the_user_may_not_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkup.sys, "platform", "linux")
    assert [permission.mark for permission in checkup.permissions(tmp_path)] == [NOTE]
    (tmp_path / "renderD128").touch()
    assert [permission.mark for permission in checkup.permissions(tmp_path)] == [OK]
    monkeypatch.setattr(checkup.os, "access", lambda *_: False)
    [finding] = checkup.permissions(tmp_path)
    assert (finding.mark, "usermod -aG render" in finding.remedy) == (FAILED, True)


@pytest.mark.pure
def test_caches_that_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "cache"))
    [finding] = checkup.cache(in_this_process)
    assert (finding.mark, finding.text) == (OK, f"{tmp_path / 'cache' / 'vkcompute'}, writable, 0 bytes")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    (tmp_path / "file").touch()
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    [finding] = checkup.cache(in_this_process)
    assert (finding.mark, "is not used, so each process compiles anew: " in finding.text) == (FAILED, True)
    if os.name == "posix":
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "open"))
        [finding] = checkup.cache(in_this_process)
        assert (finding.mark, "can be written by other users (mode 0777" in finding.text) == (FAILED, True)


@pytest.mark.pure
def test_a_check_that_cannot_go_on_has_failed(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed() -> Any:
        yield checkup.Finding(OK, "first", "done")
        raise PermissionError(13, "Permission denied", "/root/x")

    monkeypatch.setattr(doctor, "CHECKS", (closed, lambda: [checkup.Finding(OK, "next", "done")]))
    done = vk("doctor")
    assert done.status == 2
    assert "FAILED closed          [Errno 13] Permission denied: '/root/x'\n" in done.out
    assert "ok     next            done\n" in done.out


@pytest.mark.pure
def test_a_check_that_fails_itself_leaves_json_and_the_others(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> Any:
        yield checkup.Finding(OK, "first", "\x1b[31m")
        raise RecursionError("too deep")

    monkeypatch.setattr(doctor, "CHECKS", (wrong, lambda: [checkup.Finding(OK, "next", "done")]))
    report = json.loads(vk("doctor", "--json").out)["findings"]
    assert [item["subject"] for item in report] == ["first", "wrong", "next"]
    assert report[1]["text"] == "the check itself fails: RecursionError: too deep"


BEHAVIOUR = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void at_load(void) {
    const char *does = getenv("TEST_BEHAVIOUR");
    if (!strcmp(does, "aborts")) abort();
    if (!strcmp(does, "exits")) _exit(0);
    if (!strcmp(does, "prints")) write(1, "{driver: loaded}\\n", 17);
    if (!strcmp(does, "writes")) for (;;) write(2, does, 6);
    if (!strcmp(does, "hangs")) for (;;) pause();
    if (!strcmp(does, "allocates")) for (;;) memset(malloc(1 << 24), 1, 1 << 24);
}
void *vk_icdGetInstanceProcAddr(void *instance, const char *name) { return 0; }
"""


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library, as a driver and as the loader, that does what TEST_BEHAVIOUR says."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("library")
    command = ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-o", str(folder / "libvulkan.so.1"), "-"]
    subprocess.run(command, input=BEHAVIOUR, text=True, check=True)
    (folder / "driver.json").write_text(json.dumps({"ICD": {"library_path": str(folder / "libvulkan.so.1")}}))
    return folder


@pytest.mark.pure
@pytest.mark.parametrize(
    ("does", "problem"),
    [
        ("aborts", "the process was ended by SIGABRT"),
        ("exits", "the process ended before it had answered, with status 0"),
        ("prints", ""),
        ("writes", "it wrote more than 64 KiB"),
        ("hangs", "no answer within 0.5 s"),
        ("allocates", "it took more than 200 MiB of memory"),
    ],
)
def test_a_library_that_misbehaves(
    misbehaving: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, does: str, problem: str
) -> None:
    monkeypatch.setenv("TEST_BEHAVIOUR", does)
    monkeypatch.setattr(child_process, "_SILENT_S", 0.2)
    monkeypatch.setattr(trials_of_doctor, "_TIME_S", 60)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    monkeypatch.setitem(trials_of_doctor._TIMES_S, "library", 0.5 if does == "hangs" else 60)
    monkeypatch.setattr(trials_of_doctor, "_OUTPUT_NBYTES", 1 << 16)
    monkeypatch.setattr(trials_of_doctor, "_MEMORY_NBYTES", 200 << 20)
    library = misbehaving / "libvulkan.so.1"
    [driver] = checkup.manifests({"VK_DRIVER_FILES": str(misbehaving / "driver.json")})
    assert driver.text == f"{misbehaving / 'driver.json'}" + (
        f" names {library}, which fails when it is loaded: {problem}" if problem else f": {library}"
    )
    assert (f"waiting for the driver {library}, for at most 0.5 s" in caplog.messages) == (does == "hangs")
    if does in ("aborts", "exits"):
        monkeypatch.setenv("LD_LIBRARY_PATH", str(misbehaving))
        [loader] = checkup.loader()
        assert (loader.mark, loader.text) == (FAILED, f"libvulkan.so.1 fails: {problem}")
        assert "LD_LIBRARY_PATH" in loader.remedy


@pytest.mark.pure
@pytest.mark.parametrize(("load", "times"), [(0.5, 1), (4, 1), (32, 8)])
def test_limits_grow_with_the_load(monkeypatch: pytest.MonkeyPatch, load: float, times: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    noted: list[float] = []

    def run_python(*_: object, limits: child_process.Limits, **__: object) -> child_process.Finished:
        noted.append(limits.timeout_s)
        return child_process.Finished(0, b"", b"")

    monkeypatch.setattr(trials_of_doctor, "run_python", run_python)
    for name in ("library", "computations"):
        trials_of_doctor.in_a_process("it", name)
    assert noted == [20 * times, 120 * times]


@pytest.mark.pure
@pytest.mark.skipif(os.name != "posix", reason="makes pipes")
def test_manifests_that_are_none(tmp_path: Path) -> None:
    head = '{"ICD":{"library_path":'
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "good.jsn").write_text(head + '"libc.so.6"}}')
    texts = {
        "large": head + " " * (2 << 20) + '"x"}}',
        "long": head + json.dumps("a" * 300_000) + "}}",
        "nested": "[" * 200_000,
        "nul": head + r'"a\u0000b"}}',
        "surrogate": head + r'"a\ud800b"}}',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    problems = {
        Path(manifest.text.partition(" ")[0]).stem: manifest.text.partition(" ")[2]
        for manifest in checkup.manifests({"VK_DRIVER_FILES": f"{tmp_path}:{tmp_path / 'good.jsn'}"})
    }
    assert problems["good"].startswith("is left out by the loader")
    assert problems["pipe"] == "is a pipe or a device"
    assert problems["large"] == "has more than 1,024 KiB, and is no driver manifest"
    assert problems["nested"].startswith("is not JSON: maximum recursion depth exceeded")
    for name in ("long", "nul", "surrogate"):
        assert problems[name].startswith("names no library: its ICD.library_path is no path, 'a"), name
        assert len(problems[name]) < 120


@pytest.mark.pure
def test_trials_run_this_package_and_nothing_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "vkcompute").mkdir()
    for name in ("json", "ctypes", "random", "numpy", "sitecustomize", "vkcompute/__init__"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\nraise ImportError('not the real one')\n")
    monkeypatch.chdir(tmp_path)
    for first in ("", str(tmp_path)):  # of `python -c`, and of `python -m`
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [first, *sys.path])
            [finding] = checkup.compilers()
            assert "fails" not in finding.text
    monkeypatch.setenv("VKCOMPUTE_GLSLC", "/bin/cat")
    monkeypatch.setenv("VKCOMPUTE_GLSLC_TIMEOUT_S", "abc")
    [finding] = checkup.compilers()
    assert "the search for it fails: ValueError: VKCOMPUTE_GLSLC_TIMEOUT_S is a number of seconds" in finding.text
    assert not ran.exists()


@pytest.mark.pure
@pytest.mark.skipif(os.name != "posix", reason="folders of drivers are listed on Linux and macOS")
def test_variables_that_leave_no_driver(tmp_path: Path) -> None:
    [finding] = checkup.manifests({"VK_DRIVER_FILES": "", "VK_ICD_FILENAMES": "/x.json"})
    assert (finding.text, finding.remedy) == ("VK_DRIVER_FILES= names none", "correct or unset VK_DRIVER_FILES")
    assert ("VK_DRIVER_FILES", "empty") in [(e.subject, e.text) for e in checkup.variables({"VK_DRIVER_FILES": ""})]
    folder = tmp_path / "home" / ".local" / "share" / "vulkan" / "icd.d"
    folder.mkdir(parents=True)
    (folder / "driver.json").write_text("{}")
    environ = {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path), "XDG_DATA_DIRS": str(tmp_path)}
    [finding] = checkup.manifests(environ)
    assert finding.remedy == "correct or unset XDG_DATA_DIRS, which names the folders of the driver manifests"


@pytest.mark.pure
@pytest.mark.skipif(os.name != "posix", reason="libz.so.1 is a library of Linux")
def test_a_library_that_is_no_driver(tmp_path: Path) -> None:
    manifest = tmp_path / "driver.json"
    manifest.write_text(json.dumps({"ICD": {"library_path": "libc.so.6"}}))
    [finding] = checkup.manifests({"VK_ICD_FILENAMES": str(manifest)})
    assert (finding.mark, finding.text) == (FAILED, f"{manifest} names libc.so.6, which is no Vulkan driver")


@pytest.mark.pure
def test_a_compiler_that_a_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_GLSLC", "/nowhere")
    [finding] = checkup.compilers(in_this_process)
    assert (finding.mark, finding.remedy) == (NOTE, "correct or unset VKCOMPUTE_GLSLC")
    assert finding.text == "VKCOMPUTE_GLSLC='/nowhere' is no executable program"


@pytest.mark.pure
def test_misspelt_variables_are_named() -> None:
    given = {"VKCOMPUTE_DEVCE": "0", "VKCOMPUTE_DEVICE": "1", "VKCOMPUTE_QQ": "", "VKCOMPUTE_TEST_ALL_ICDS": "1"}
    findings = [(variable.subject, variable.text, variable.remedy) for variable in checkup.variables(given)]
    text = "has no effect: there is no such variable"
    assert findings == [
        ("VKCOMPUTE_DEVICE", "1", ""),
        ("VKCOMPUTE_DEVCE", text, "set VKCOMPUTE_DEVICE"),
        ("VKCOMPUTE_QQ", text, "unset it"),
    ]


@pytest.mark.pure
def test_doctor_knows_all_variables() -> None:
    package = Path(checkup.__file__).parent.parent
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    used = {name for text in texts for name in re.findall(r"\"(VKCOMPUTE_[A-Z_]+)\"", text)}
    known = {variable.subject for variable in checkup.variables(dict.fromkeys(used, "1")) if not variable.remedy}
    assert used - known == {"VKCOMPUTE_TEST_"}
    page = (package.parent / "docs/installation.md").read_text(encoding="utf-8")
    assert known - {"VKCOMPUTE_TEST_"} <= set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
