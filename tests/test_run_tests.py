"""The runs of the suite, one per driver, and their summary: on small suites of tests, with drivers that are made up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import drivers
import many_queues
import probe
import pytest
import run_tests
import selection

pytestmark = pytest.mark.pure


SUITE = """
import os, pytest
def test_passes(): pass
def test_fails(): assert False, "told later"
def test_skips(): pytest.skip("x")
@pytest.fixture
def broken():
    yield
    assert False
def test_teardown_fails(broken): pass
"""
HERE = run_tests.Driver("lavapipe", "llvmpipe", dict(os.environ))


def run_suite(folder: Path, text: str, *, shown: bool = True) -> run_tests.Outcome:
    path = folder / "test_inner.py"
    path.write_text(text)
    arguments = [str(path), "-p", "no:cacheprovider", f"--rootdir={folder}"]
    return run_tests.run(HERE, dict(os.environ), [], arguments, shown=shown)


def test_outcomes_are_counted_and_what_a_run_beside_another_says_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = run_suite(tmp_path, SUITE, shown=False)
    assert (outcome.failed, outcome.skipped, outcome.collected) == (2, 1, True)
    assert outcome.passed >= 1
    assert "told later" not in capfd.readouterr().out
    assert "told later" in outcome.output
    assert (outcome.failing, outcome.ended) == ({"test_inner.py"}, True)
    assert run_suite(tmp_path, "def test_a(): raise ValueError('told now')").output == ""
    assert "told now" in capfd.readouterr().out


def test_a_process_that_dies_is_a_failure(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, "import os\ndef test_a(): pass\ndef test_b(): os.kill(os.getpid(), 9)\n")
    assert (outcome.passed, outcome.failed, outcome.ended) == (0, 1, False)


def test_no_test_at_all_is_no_success(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, "")
    assert not outcome.collected
    assert "no tests were collected" in run_tests.verdict([outcome], set(), selection=False)
    assert "no tests were collected" in run_tests.verdict([outcome], set(), selection=True)


def outcome(driver: str, passed: int = 1, failed: int = 0, collected: bool = True) -> run_tests.Outcome:
    return run_tests.Outcome(driver, "some device", passed, failed, 2, 1.5, collected)


@pytest.mark.parametrize(
    ("outcomes", "required", "selecting", "expected"),
    [
        ([outcome("lavapipe"), outcome("swiftshader")], {"lavapipe", "swiftshader"}, False, ""),
        ([outcome("lavapipe")], {"lavapipe", "swiftshader"}, False, "required but not run: swiftshader"),
        ([outcome("lavapipe", failed=1)], set(), False, "tests failed"),
        ([outcome("lavapipe"), outcome("gpu", 0, 0, False)], set(), False, "no tests were collected on gpu"),
        ([outcome("lavapipe"), outcome("gpu", 0, 0, False)], set(), True, ""),
        ([], set(), True, "no Vulkan driver to run on"),
    ],
)
def test_verdict(outcomes: list[run_tests.Outcome], required: set[str], selecting: bool, expected: str) -> None:
    assert run_tests.verdict(outcomes, required, selection=selecting) == expected


def test_shards_have_all_drivers_and_add_up() -> None:
    everyone = [run_tests.Driver(name, "a", {}) for name in ("lavapipe", "both", "pure", "swiftshader")]
    runs = run_tests.sharded(everyone)
    assert [(run.name, run.shard) for run in runs] == [
        ("lavapipe", (0, 2)), ("lavapipe", (1, 2)), ("swiftshader", (0, 2)), ("swiftshader", (1, 2)), ("both", (0, 1)),
        ("pure", (0, 4)), ("pure", (1, 4)), ("pure", (2, 4)), ("pure", (3, 4)),
    ]  # fmt: skip
    added = run_tests.combined(
        [outcome("gpu", 3), outcome("both"), outcome("gpu", 4, failed=1), outcome("gpu", 0, 0, False)]
    )
    assert [(item.driver, item.passed, item.failed, item.skipped, item.collected) for item in added] == [
        ("gpu", 7, 1, 6, True), ("both", 1, 0, 2, True)
    ]  # fmt: skip


def test_the_summary_ends_like_pytest() -> None:
    text = run_tests.summary([outcome("lavapipe", 10, 1), outcome("gpu", 5)], {"swiftshader": "it is not installed"})
    assert text.splitlines()[-1] == "15 passed, 1 failed, 4 skipped in 3.00s"
    assert "swiftshader  not run: it is not installed" in text


def test_each_driver_sees_itself_and_multi_device_tests_see_all() -> None:
    lavapipe = run_tests.Driver("lavapipe", "a", {"VK_DRIVER_FILES": "/a.json", "VKCOMPUTE_DEVICE": "1"})
    swiftshader = run_tests.Driver("swiftshader", "b", {"VK_DRIVER_FILES": "/b.json"})
    env = run_tests.environment(lavapipe, [lavapipe, swiftshader])
    assert env["VKCOMPUTE_TEST_ALL_ICDS"] == f"/a.json{os.pathsep}/b.json"
    assert env["VKCOMPUTE_VALIDATION"] == "error"
    assert "VKCOMPUTE_DEVICE" not in env
    assert "VKCOMPUTE_TEST_ALL_ICDS" not in run_tests.environment(lavapipe, [lavapipe])


def test_a_second_driver_runs_a_part_where_the_first_runs_all() -> None:
    """Alone, or where all tests run, it runs all; the statement names the part."""
    lavapipe, swiftshader = (run_tests.Driver(name, "a", {}) for name in run_tests.SOFTWARE)
    pure = run_tests.Driver("pure", "a", {})
    tests = selection.selection_for(["vkcompute/ir/types.py"], "seed", "0123456789")
    chosen = run_tests.selections([lavapipe, swiftshader, pure], tests)
    assert [item and item.part for item in chosen] == [None, selection.PART, None]
    assert [text.split(":")[1].strip() for text in run_tests.stated(chosen)] == [
        "all tests", "swiftshader runs a part of these"
    ]  # fmt: skip
    alone = run_tests.selections([swiftshader], tests)
    assert [item and item.part for item in alone] == [None]
    assert len(run_tests.stated(alone)) == 1
    assert run_tests.selections([lavapipe, swiftshader], None) == [None, None]
    assert run_tests.stated([None, None]) == []


def test_pytorchs_device_runs_what_changed_and_a_part_of_its_other_tests() -> None:
    tests = selection.selection_for(["tests/pytorch/test_operators.py", "vkcompute/ir/types.py"], "seed", "0123456789")
    driver = run_tests.with_torch(run_tests.Driver("lavapipe", "a", {}))
    chosen = run_tests.selections([driver], tests)
    assert [(item.whole, item.share, item.rotating) for item in chosen if item] == [(tests.whole, selection.SHARE, 1)]
    assert run_tests.stated(chosen) == [
        "selection: torch runs 1 of its test files in full, and of the others every 4th test"
    ]


def test_a_real_gpu_is_a_third_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default search finds lavapipe and a GPU: the GPU is asked for by name, with the loader left as it is."""
    cpu = probe.Device("llvmpipe", "cpu", (1, 3))
    gpu = probe.Device("Some GPU 9000", "discrete", (1, 4))

    def search(env: dict[str, str] | None = None) -> probe.Probe:
        return probe.Probe(True, (cpu,) if env else (cpu, gpu))

    monkeypatch.setattr(run_tests, "probe", search)
    monkeypatch.setattr(drivers, "lavapipe", lambda: Path("/lvp.json"))
    monkeypatch.setattr(drivers, "swiftshader", lambda: None)
    monkeypatch.setattr(run_tests, "TORCH_PYTHON", Path("/no/python"))
    monkeypatch.setattr(many_queues, "build", lambda inner: "it takes a C compiler (cc)")
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    result, absent = run_tests.find()
    assert [(driver.name, driver.device) for driver in result] == [
        ("lavapipe", "llvmpipe"), ("gpu", "Some GPU 9000"), ("poor", "llvmpipe, at its poorest"),
    ]  # fmt: skip
    assert result[1].env["VKCOMPUTE_DEVICE"] == "Some GPU 9000"
    assert "VK_DRIVER_FILES" not in result[1].env
    assert absent == {
        "swiftshader": "it is not installed", "both": "it needs both software drivers",
        "queues": "it takes a C compiler (cc)", "discrete": "it takes a C compiler (cc)",
        "torch": "PyTorch's environment is missing; make torch-environment makes it",
    }  # fmt: skip


def test_pure_tests_run_once() -> None:
    one, both = run_tests.Driver("lavapipe", "a", {}), run_tests.Driver("both", "c", {}, "devices")
    assert run_tests.divided([one]) == [one]
    results = [(driver.name, driver.device, driver.marker) for driver in run_tests.divided([one, both])]
    assert results == [("lavapipe", "a", "not pure"), ("both", "c", "(devices) and not pure"), ("pure", "a", "pure")]


def test_two_software_drivers_run_tests_of_several_devices_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = probe.Probe(True, (probe.Device("some CPU", "cpu", (1, 3)),))
    monkeypatch.setattr(run_tests, "probe", lambda env=None: seen)
    monkeypatch.setattr(drivers, "lavapipe", lambda: Path("/lvp.json"))
    monkeypatch.setattr(drivers, "swiftshader", lambda: Path("/sws.json"))
    monkeypatch.setattr(run_tests, "TORCH_PYTHON", Path(sys.executable))
    monkeypatch.setattr(many_queues, "build", lambda inner: {"VK_DRIVER_FILES": "/many.json"})
    result, absent = run_tests.find()
    assert [(driver.name, driver.marker) for driver in result] == [
        ("lavapipe", ""), ("swiftshader", ""), ("both", "devices"), ("poor", "not pure"), ("torch", ""),
        ("queues", "queues"), ("discrete", "not pure"),
    ]  # fmt: skip
    assert absent == {"gpu": "no real GPU found"}
    env = run_tests.environment(result[2], result)
    assert env["VK_DRIVER_FILES"] == env["VKCOMPUTE_TEST_ALL_ICDS"] == f"/lvp.json{os.pathsep}/sws.json"
    env = run_tests.environment(result[3], result)
    assert (env["VK_DRIVER_FILES"], env["VKCOMPUTE_PROFILE"]) == ("/lvp.json", "poor")
    env = run_tests.environment(result[5], result)
    assert env["VK_DRIVER_FILES"] == "/many.json"
    assert "VKCOMPUTE_TEST_ALL_ICDS" not in env


def test_a_run_resumes_after_the_tests_that_have_passed(tmp_path: Path) -> None:
    text = (
        "import pathlib\ndef test_a(): pass\ndef test_b(): assert pathlib.Path('mended').exists()\ndef test_c(): pass\n"
    )
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "conftest.py").write_text(
        "import pathlib, passed_tests\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(passed_tests.PassedTests(pathlib.Path('passed.txt')))\n"
    )

    def run() -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        env = {**os.environ, "PYTHONPATH": str(drivers.ROOT / "scripts")}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False).stdout

    assert "1 failed, 2 passed" in run()
    (tmp_path / "mended").touch()
    assert "1 passed, 2 deselected" in run()
