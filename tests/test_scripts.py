"""The scripts behind `make demo` and `make test`, against a fake apt and fake drivers."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bootstrap
import damage
import drivers
import environment
import many_queues
import packages
import probe
import pytest
from report import SetupError

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"

pytestmark = pytest.mark.pure


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no programs but /bin/sh's: programs are put into the folder that comes back."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("env", "cat", "cp", "true"):
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, body: str) -> Path:
    """Put a shell script on the machine; returns its log, to which each call adds its arguments."""
    log = folder / f"{name}.log"
    script = folder / name
    script.write_text(f'#!/bin/sh\necho "$*" >> {log}\n{body}\n')
    script.chmod(0o755)
    return log


def as_user(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: number)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_list_of_goals_fits_a_terminal() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=SCRIPTS.parent, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert {"  make demo", "  make test"} <= {line[:11] for line in lines}
    assert max(map(len, lines)) <= 80


def test_without_an_administrator_the_whole_command_is_given(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = program(machine, "apt-get", "")
    as_user(monkeypatch, 1000)
    with pytest.raises(
        SetupError, match=r"\n    sudo apt-get update && sudo apt-get install -y libvulkan1 glslang-tools$"
    ):
        packages.install(["libvulkan1", "glslang-tools"])
    assert not log.exists()


def test_a_sudo_that_would_ask_is_not_run_without_a_terminal(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "apt-get", "")
    program(machine, "sudo", "exit 1")
    as_user(monkeypatch, 1000)
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert packages.admin_prefix() is None


def test_sudo_that_does_not_ask_is_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = program(machine, "apt-get", "")
    sudo = program(machine, "sudo", 'shift; exec "$@"')
    as_user(monkeypatch, 1000)
    packages.install(["libvulkan1"])
    assert apt.read_text().splitlines()[-1].endswith("install -y --no-install-recommends libvulkan1")
    assert all(call.startswith("-n ") for call in sudo.read_text().splitlines())


def test_root_needs_no_sudo_and_a_failure_is_tried_again(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"case $* in *install*) [ -e {machine}/once ] || {{ : > {machine}/once; exit 100; }};; esac"
    log = program(machine, "apt-get", body)
    as_user(monkeypatch, 0)
    packages.install(["libvulkan1"])
    kinds = ["install" if "install" in call else "update" for call in log.read_text().splitlines()]
    assert kinds == ["update", "install", "update", "install"]


def test_apts_words_are_shown_where_it_fails(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "apt-get", "echo 'E: Unable to locate package x'; exit 100")
    as_user(monkeypatch, 0)
    with pytest.raises(SetupError, match="E: Unable to locate package x"):
        packages.install(["x"])


def test_without_apt_the_packages_are_named(machine: Path) -> None:
    with pytest.raises(SetupError, match=r"no apt-get to install them: libvulkan1 "):
        packages.install(["libvulkan1"])


def need(name: str, have: set[str], *brings: str) -> bootstrap.Need:
    return bootstrap.Need(name, lambda: name in have, brings)


def test_the_loader_is_installed_before_a_driver_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the loader in place a GPU's driver answers, and Mesa's is not installed."""
    have: set[str] = set()
    asked: list[list[str]] = []

    def install(names: list[str]) -> None:
        asked.append(names)
        have.update({"loader", "device"})

    loader = need("loader", have, "libvulkan1")
    monkeypatch.setattr(bootstrap, "LOADER", loader)
    monkeypatch.setattr(packages, "install", install)
    monkeypatch.setattr(packages, "has_apt", lambda: True)
    monkeypatch.setattr(packages, "admin_prefix", list)
    bootstrap.ensure_system((loader, need("device", have, "libvulkan1", "mesa-vulkan-drivers")))
    assert asked == [["libvulkan1"]]


def test_what_is_still_missing_afterwards_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "install", lambda names: None)
    monkeypatch.setattr(bootstrap, "probe", lambda: probe.Probe(loader=True, error="vkCreateInstance returned -9"))
    with pytest.raises(SetupError, match=r"still missing.*: a driver \(vkCreateInstance returned -9"):
        bootstrap.ensure_system((need("a driver", set(), "mesa"), need("there", {"there"}, "x")))


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """An environment in a temporary folder whose pip only notes what it was asked."""
    calls: list[tuple[str, ...]] = []
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(environment, "_works", lambda: bool(calls))
    monkeypatch.setattr(environment, "_create", lambda: calls.append(("make",)))
    monkeypatch.setattr(environment, "_pip", lambda *words: calls.append(words[2:]))
    return calls


def test_the_environment_is_installed_into_once(venv: list[tuple[str, ...]], tmp_path: Path) -> None:
    environment.ensure(["ml", "cli"])
    environment.ensure(["cli"])
    assert venv == [("make",), (f"{tmp_path}[cli,ml]",)]
    environment.ensure(["dev"])
    assert venv[2:] == [(f"{tmp_path}[cli,dev,ml]",)]
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    environment.ensure(["cli"])
    assert venv[3:] == [(f"{tmp_path}[cli]",)]


@pytest.mark.parametrize("stamp", ["", "{", "[]", "null", '{"key": 1}', '{"extras": ["cli"], "key": "old"}'])
def test_a_broken_stamp_means_another_installation(venv: list[tuple[str, ...]], tmp_path: Path, stamp: str) -> None:
    (tmp_path / "stamp.json").write_text(stamp)
    environment.ensure(["cli"])
    assert venv == [("make",), (f"{tmp_path}[cli]",)]


def test_an_interrupted_environment_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/nowhere/python3")
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "bin/python")
    assert not environment._works()
    environment._create()
    assert environment._works()


def test_the_probe_outlives_a_driver_that_crashes(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "crash", "kill -SEGV $$")
    monkeypatch.setattr("sys.executable", str(machine / "crash"))
    report = probe.probe()
    assert report.devices == ()
    assert "status -11" in report.error


def test_the_probe_overhears_a_driver_that_talks(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = '{"loader": true, "devices": [{"name": "X", "kind": "cpu", "api": [1, 1]}], "layers": [], "error": ""}'
    program(machine, "noisy", f"echo 'WARNING: not a conformant driver'; echo '{answer}'")
    monkeypatch.setattr("sys.executable", str(machine / "noisy"))
    report = probe.probe()
    assert [device.name for device in report.devices] == ["X"]
    assert report.usable == (), "Vulkan 1.1 has no timeline semaphores"


def test_the_probe_finds_no_device_where_no_driver_is_named() -> None:
    report = probe.probe(drivers.only("/nonexistent.json"))
    assert (report.devices, bool(report.error)) == ((), True)


def test_an_environment_for_one_driver_overrules_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ADD_DRIVER_FILES", "/a.json")
    monkeypatch.setenv("VK_DRIVER_FILES", "/b.json")
    env = drivers.only("/c.json")
    assert {name: value for name, value in env.items() if name.startswith("VK_")} == {
        "VK_DRIVER_FILES": "/c.json",
        "VK_ICD_FILENAMES": "/c.json",
    }


def make_package(folder: Path, names: tuple[str, ...]) -> Path:
    """A .deb whose usr/lib/chromium holds files of these names."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb")
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y.z>\nDescription: x\n"
    )
    for name in names:
        path = tree / "usr/lib/chromium" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    subprocess.run(["dpkg-deb", "--build", tree, folder / "x.deb"], check=True, capture_output=True)
    return folder / "x.deb"


@pytest.mark.parametrize("complete", [True, False])
def test_swiftshader_is_taken_out_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    names = ("vk_swiftshader_icd.json", "libvk_swiftshader.so", "chrome", "big.pak")
    package = make_package(tmp_path, names if complete else names[2:])
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program(bin_folder, "apt-get", f"cp {package} .")
    monkeypatch.setenv("PATH", str(bin_folder), prepend=os.pathsep)
    monkeypatch.setattr(drivers, "DRIVERS", tmp_path / "drivers")
    monkeypatch.setattr(drivers, "SWIFTSHADER_FOLDERS", (tmp_path / "drivers/swiftshader",))
    why = drivers.fetch_swiftshader()
    manifest = drivers.swiftshader()
    if complete:
        assert (why, manifest) == ("", tmp_path / "drivers/swiftshader/vk_swiftshader_icd.json")
        folder = tmp_path / "drivers/swiftshader"
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {n: n.encode() for n in names[:2]}
    else:
        assert "transitional" in why
        assert manifest is None
        assert list((tmp_path / "drivers").iterdir()) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="it takes a C compiler")
def test_the_driver_of_many_queues_is_built_around_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "DRIVERS", tmp_path / "drivers")
    assert many_queues.build(None) == "it needs lavapipe"
    inner = tmp_path / "lvp.json"
    inner.write_text('{"ICD": {"library_path": "/lib/liblvp.so"}}')
    made = many_queues.build(inner)
    assert isinstance(made, dict), made
    assert made["MANY_QUEUES_DRIVER"] == "/lib/liblvp.so"
    assert ctypes.CDLL(json.loads(Path(made["VK_DRIVER_FILES"]).read_text())["ICD"]["library_path"])
    monkeypatch.setattr(many_queues, "SOURCE", inner)
    assert "does not compile" in many_queues.build(inner)


def test_a_command_runs_on_the_driver_of_many_queues(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["many_queues.py", *arguments])
        return many_queues.main()

    command = [sys.executable, "-c", "import os; print(os.environ['A'], os.environ.get('MANY_QUEUES_PACE')); exit(3)"]
    monkeypatch.setattr(many_queues, "build", lambda inner: {"A": "b"})
    assert run(*command) == 3
    assert run("--pace", "1000,2.5", *command) == 3
    assert capfd.readouterr().out.split("\n") == ["b None", "b 1000.0,2.5", ""]
    assert run() == 2
    assert run("no-such-program") == 2
    for wrong in ("1000", "1,-1", "1,2,3", "inf,1", "fast,slow"):
        with pytest.raises(SystemExit):
            run("--pace", wrong, *command)
    monkeypatch.setattr(many_queues, "build", lambda inner: "it needs lavapipe")
    assert run(*command) == 2
    said = capfd.readouterr().err
    assert "a command is needed" in said
    assert "'fast,slow' is not two numbers of at least 0, separated by a comma" in said
    assert "no such program: no-such-program" in said
    assert "many_queues.py: it needs lavapipe" in said


def test_an_environment_of_another_python_is_made_again_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(environment, "run_quietly", lambda command: exec_check(command[-1]))
    monkeypatch.setenv("PYTHON", "/some/python3")
    assert environment._works()
    monkeypatch.setattr("sys.version_info", (3, 99, 0))
    assert not environment._works()
    monkeypatch.delenv("PYTHON")
    assert environment._works()


def exec_check(code: str) -> str | None:
    """The result of run_quietly for Python code, run by this interpreter in an unpatched process."""
    return None if subprocess.run([sys.executable, "-c", code], check=False).returncode == 0 else "no"


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damaged_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    result = damage.run_seeds(kind, range(40), tmp_path)
    assert result["failures"] == []
    assert sum(result["counts"].values()) == 40
    assert result["counts"]["refused"]


_BAD_READERS = """
import os, random, sys
sys.path.insert(0, os.environ["SCRIPTS"])
import damage

def read(path, rng, content):
    seed = next(n for n in range(4) if random.Random(n).getstate() == rng.getstate())
    if seed == 2:
        os.abort()
    raise [damage.Wrong("other"), damage.DataError("nameless"), None, damage.DataError(str(path))][seed]

damage.__file__ = __file__
damage.KINDS = {"bad": damage.Kind(lambda: [b"content"], read)}
sys.exit(damage.main())
"""


def test_readers_that_die_or_err_are_reported_with_the_seed(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(_BAD_READERS)
    command = [sys.executable, str(tmp_path / "bad.py"), "--only", "bad", "--count", "4"]
    env = os.environ | {"SCRIPTS": str(SCRIPTS)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1].split()[:5] == ["bad", "4", "0", "2", "3"]
    for line in (
        "--only bad --seed 0 --count 1: Wrong: other",
        "--only bad --seed 1 --count 1: no error of one line with the file's name",
        "--only bad --seed 2 --count 1: status -6: Fatal Python error: Aborted",
    ):
        assert f"\n  {line}" in done.stdout
