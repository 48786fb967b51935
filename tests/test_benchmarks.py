"""The benchmarks run, refuse to time what is wrong, and go on where a peer is missing, broken or dead; no times."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from runtimes import open_runtime

import vkcompute as vc

pytestmark = pytest.mark.pure

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

# Peers that stand for every way to fail: absent, broken at import, wrong, dead in the middle, with no device.
_STANDINS = {
    "wgpu": "raise ImportError('there is no wgpu here')",
    "taichi": "raise RuntimeError('taichi is broken')",
    "numba": "prange = range\ndef njit(parallel):\n    return lambda f: lambda a, b, c: c.fill(0)",
    "kp": "import os\nclass Manager:\n    def __init__(self, device):\n        os._exit(3)",
    "pyopencl": "Error = RuntimeError\ndef get_platforms():\n    return []",
}
_NOTES = {
    "wgpu": "there is no wgpu here",
    "taichi": "taichi is broken",
    "numba": "numpy has",
    "kompute": "ended with status 3",
    "pyopencl": "no OpenCL platform",
}


def _run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), *options]
    return subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, timeout=hang_limit_s(), check=False
    )


# Of one device; the programs of Kompute, and of two devices, have runs of their own.
_MEASURED = (
    "multiply", "launch", "scheduling", "start", "logistic", "streaming", "overlap", "python_kernels", "numba_kernels",
    "triton_programs", "algorithms", "selections", "networks",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The output of a run at the smallest size, and its JSON."""
    folder = tmp_path_factory.mktemp("peers")
    for name, text in _STANDINS.items():
        (folder / f"{name}.py").write_text(text)
    figures = folder / "figures.json"
    temporary = folder / "temporary"
    temporary.mkdir()
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    only = "--only", ",".join(_MEASURED)
    done = _run("--smoke", *only, "--json", str(figures), "--folder", str(temporary), PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(temporary.iterdir()) == []
    return done.stdout, json.loads(figures.read_text())


def _rows(figures: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for case in figures["cases"]:
        for row in case["rows"]:
            yield case, row


@pytest.mark.rotates
def test_figures_say_where_they_come_from(outcome: tuple[str, dict[str, Any]]) -> None:
    figures = outcome[1]
    assert figures["machine"]["cores"] == os.cpu_count()
    assert figures["machine"]["cpu"]
    assert figures["machine"]["memory_bytes"] > 1 << 28
    assert figures["device"]["name"]
    assert figures["device"]["driver"]
    assert figures["versions"]["numpy"] == np.__version__
    assert {"python", "vkcompute", "vulkan"} <= figures["versions"].keys()
    assert "--smoke" in figures["command"]
    assert figures["date"][:2] == "20"


@pytest.mark.rotates
def test_every_benchmark_has_its_cases(outcome: tuple[str, dict[str, Any]]) -> None:
    keys = [case["key"] for case in outcome[1]["cases"]]
    assert len(keys) == len(set(keys))
    assert {key.split(".")[0] for key in keys} == {name.partition("_")[0] for name in _MEASURED}


def test_the_campaign_of_random_programs_starts() -> None:  # folders of tests have modules of the same names, too
    command = [sys.executable, str(BENCHMARKS / "programs.py"), "--help"]
    subprocess.run(command, check=True, capture_output=True, timeout=hang_limit_s())


def test_every_benchmark_is_run_here() -> None:
    command = [sys.executable, "-c", "import run; print(*run.BENCHMARKS)"]  # their modules have names of tests' helpers
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True, timeout=hang_limit_s())
    assert {*done.stdout.split()} == {*_MEASURED, "devices", "kompute"}


@pytest.mark.rotates
def test_kompute_runs_the_programs_that_ours_runs(tmp_path: Path) -> None:
    (tmp_path / "kp.py").write_text("from vkcompute.compat.kp import *")
    figures, path = tmp_path / "figures.json", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    only = "--only", "kompute", "--peers", "kompute", "--repeat", "1"
    done = _run("--smoke", *only, "--json", str(figures), PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = [*_rows(json.loads(figures.read_text()))]
    rows = [row for _, row in cases]
    assert {case["key"].split(".")[0] for case, _ in cases} == {"kompute"}
    assert [row["program"] for row in rows] == ["compat", "kompute"] * 6
    assert all(row["verified"] for row in rows), rows
    assert done.stdout.count(", over Kompute") == 5  # of 100 rows nothing is said
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and "wrote" not in line] == []


def test_two_devices_are_set_against_one(all_drivers_env: dict[str, str], tmp_path: Path) -> None:
    done = _run("--smoke", "--only", "devices", "--json", str(tmp_path / "figures.json"), **all_drivers_env)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert all(row["verified"] for _, row in _rows(figures)), figures["cases"]
    names = ["the faster alone", "the slower alone", "best fixed split", "balanced"]
    assert [row["program"] for _, row in _rows(figures)] == names
    assert [goal["limit"] for goal in figures["goals"]] == [1.1, 0.95]
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and "wrote" not in line] == []


def test_one_device_alone_is_not_set_against_itself() -> None:
    done = _run("--smoke", "--only", "devices", **_one_driver())
    assert done.returncode == 0, done.stderr
    assert "devices cannot be measured: NoDevice: the benchmark needs" in done.stdout


def _one_driver() -> dict[str, str]:
    manifests = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES") or ""
    if not manifests:
        pytest.skip("needs a driver that is named")
    return dict.fromkeys(["VK_DRIVER_FILES", "VK_ICD_FILENAMES"], manifests.split(os.pathsep)[0])


@pytest.mark.rotates
def test_what_has_a_time_was_verified_and_the_rest_says_why(outcome: tuple[str, dict[str, Any]]) -> None:
    n = outcome[1]["sizes"]["repeat"]
    for _, row in _rows(outcome[1]):
        if row["verified"]:
            assert len(row["samples"]) == n, row
            assert row["min_s"] <= row["q1_s"] <= row["median_s"] <= row["q3_s"], row
            assert row["note"] == "", row
        else:
            assert row["samples"] == [], row
            assert row["note"], row
            assert "median_s" not in row, row


@pytest.mark.rotates
def test_numpy_and_vkcompute_are_measured_everywhere(outcome: tuple[str, dict[str, Any]]) -> None:
    for case, row in _rows(outcome[1]):
        if row["program"] not in _NOTES:
            assert row["verified"], (case["title"], row)
    for case in outcome[1]["cases"]:
        assert case["baseline"] in [row["program"] for row in case["rows"]]


@pytest.mark.rotates
def test_peers_that_fail_are_rows_in_words(outcome: tuple[str, dict[str, Any]]) -> None:
    said = {row["program"]: row["note"] for case, row in _rows(outcome[1]) if case["key"] == "multiply.small"}
    for peer, note in _NOTES.items():
        assert note in said[peer]


@pytest.mark.rotates
def test_streaming_tells_both_peaks(outcome: tuple[str, dict[str, Any]]) -> None:
    [row] = [row for case, row in _rows(outcome[1]) if case["key"] == "streaming" and row["program"] == "vkcompute"]
    assert row["extra"]["device_peak_bytes"] > 0
    if Path("/proc/self/status").exists():
        assert row["extra"]["rss_anon_peak_bytes"] > 1 << 20


@pytest.mark.rotates
def test_table_fits_80_columns(outcome: tuple[str, dict[str, Any]]) -> None:
    assert [line for line in outcome[0].splitlines() if len(line) > 80 and " " in line.strip()] == []


def test_unknown_names_are_refused() -> None:
    done = _run("--only", "multiply,nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_device_is_one_line() -> None:
    done = _run("--device", "no such device")
    assert done.returncode == 2
    assert done.stderr.startswith("run.py: ")
    assert "Traceback" not in done.stderr


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of that name; the benchmarks import each other from their folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import measure

    return measure


class _Fake:
    """A program that counts its runs in `log`, and whose result goes wrong after so many."""

    def __init__(self, name: str, log: list[str], good_runs: int = 10**9, raises_at: int = -1) -> None:
        self._name, self._log, self._good_runs, self._raises_at, self._n = name, log, good_runs, raises_at, 0

    def enqueue(self) -> None:
        self._n += 1
        if self._n == self._raises_at:
            raise OSError("the device caught fire")
        self._log.append(self._name)

    def wait(self) -> None:
        pass

    def result(self) -> np.ndarray[Any, Any]:
        return np.array([1.0 if self._n <= self._good_runs else 2.0])


def _race(measure: ModuleType, log: list[str], **programs: _Fake) -> dict[str, Any]:
    contenders = [
        measure.Local(name, lambda program=program: program, lambda: np.array([1.0]), loops=1)
        for name, program in programs.items()
    ]
    return {row.program: row for row in measure.race(measure.Case("k", "title", "a", contenders), 3, 500)}


def test_turns_go_round(measure: ModuleType) -> None:
    log: list[str] = []
    rows = _race(measure, log, a=_Fake("a", log), b=_Fake("b", log))
    assert log == ["a", "b"] * 4  # once to be checked, then three turns
    assert [len(row.samples) for row in rows.values()] == [3, 3]


@pytest.mark.parametrize("good_runs", [0, 2])
def test_a_wrong_result_has_no_time(measure: ModuleType, good_runs: int) -> None:
    log: list[str] = []
    rows = _race(measure, log, a=_Fake("a", log), b=_Fake("b", log, good_runs=good_runs))
    assert rows["b"].samples == []
    assert not rows["b"].verified
    assert "numpy has" in rows["b"].note
    assert rows["a"].verified


def test_a_failure_in_the_middle_stops_nobody_else(measure: ModuleType) -> None:
    log: list[str] = []
    rows = _race(measure, log, a=_Fake("a", log, raises_at=3), b=_Fake("b", log))
    assert rows["a"].note == "OSError: the device caught fire"
    assert rows["a"].samples == []
    assert len(rows["b"].samples) == 3


def test_bursts_wait_outside_of_the_clock(measure: ModuleType) -> None:
    log: list[str] = []
    program = _Fake("start", log)
    program.wait = lambda: log.append("wait")  # type: ignore[method-assign]
    measure.timed(program, 5, burst=2)
    assert log == ["start", "start", "wait", "start", "start", "wait", "start", "wait"]


@pytest.mark.parametrize("found", [[1.0, np.nan], [1.0, 2.1], [1.0]])
def test_compare_sees_what_is_wrong(measure: ModuleType, found: list[float]) -> None:
    expected = np.array([1.0, 2.0])
    for tolerance in (0.0, 1e-3):
        with pytest.raises(measure.WrongResult):
            measure.compare(np.array(found), expected, tolerance)
    measure.compare(np.array([1.0, 2.001]), expected, 1e-3)


def test_goals_compare_turn_by_turn(measure: ModuleType) -> None:
    """A slow half of the run moves both medians, and no goal."""
    import goals

    raw = measure.Row("launch.replay", "raw calls", samples=[30e-6, 30e-6, 90e-6], verified=True)
    ours = measure.Row("launch.replay", "vkcompute graph.run()", samples=[36e-6, 97e-6, 97e-6], verified=True)
    [goal] = goals.goals([raw, ours])
    assert goal.value == pytest.approx(7.0)
    assert goal.reached
    ours.verified = False
    assert goals.goals([raw, ours]) == []


def test_goals_of_a_case_take_its_worst_program(measure: ModuleType) -> None:
    """Of all numbers of launches: the slowest counts, and the one that is furthest above the first."""
    import goals

    def row(program: str, samples: list[float], verified: bool = True) -> Any:
        return measure.Row("scheduling.tasks", program, samples=samples, verified=verified)

    rows = [row("100", [5e-6, 6e-6, 9e-6]), row("1,000", [6e-6, 6e-6, 9e-6]), row("10,000", [15e-6, 7e-6, 11e-6])]
    most, flat = goals.goals([*rows, row("100,000", [1.0] * 3, verified=False)])
    assert (most.value, most.reached) == (pytest.approx(11.0), False)
    assert (flat.value, flat.reached) == (pytest.approx(11 / 9), False)
    assert [goal.value for goal in goals.goals(rows[:1])] == [pytest.approx(6.0)]


def test_overlap_is_set_against_what_is_possible(measure: ModuleType) -> None:
    """Copies of 3 s and kernels of 5 s: 8 s in a row, 5 s at best; 6.25 s are 0.8 of that, as 5 / 6.25."""
    import goals

    seconds = {"plain loop": 8.0, "stream": 6.25, "copies alone": 3.0, "kernels alone": 5.0}
    rows = [measure.Row("overlap.queues", name, samples=[s, s], verified=True) for name, s in seconds.items()]
    speed, share = goals.goals(rows)
    assert (speed.value, speed.reached) == (pytest.approx(1.28), False)
    assert (share.value, share.reached) == (pytest.approx(0.8), False)
    for row in rows:
        row.case = "overlap.one"
    assert [(goal.value, goal.reached) for goal in goals.goals(rows)] == [(pytest.approx(1.28), True)]


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of that name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import soak

    return soak


def test_a_soak_goes_round_and_takes_stock(soak: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with open_runtime(timelines=(2, 1)) as gpu:
        samples = soak.soak(gpu, minutes=0.02, n_threads=2, seed=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(samples) == 19
    assert max(map(len, lines)) <= 80
    assert all(sample.handles["Runtime"] >= 1 and sample.device_bytes > 0 for sample in samples)


@pytest.mark.parametrize("broken", ["copy_from", "fill", "write"])
def test_a_soak_sees_what_is_wrong(soak: ModuleType, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    with vc.Runtime() as gpu:
        for seed in range(3):
            soak.Program(gpu, seed).run()
        programs = [soak.Program(gpu, seed) for seed in range(3)]
        monkeypatch.setattr(vc.Array, broken, lambda *_: None)
        with pytest.raises(soak.WrongResult):
            list(map(soak.Program.run, programs))


def test_programs_that_are_interrupted_check_all_that_comes_after(
    monkeypatch: pytest.MonkeyPatch, gpu: vc.Runtime
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import interrupts
    import soak

    program = interrupts.Program(gpu, 1)
    program.compile()
    asked = iter([KeyboardInterrupt, vc.VkComputeError("interrupted by KeyboardInterrupt")])

    def fail() -> None:
        raise next(asked)

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(random.Random, "choice", lambda *_: fail)
            program.interrupted(SimpleNamespace(expected=False), random.Random(), compiles=True)
    with monkeypatch.context() as patch:
        patch.setattr(random.Random, "choice", lambda *_: lambda: None)
        patch.setattr(program, "_square", vc.elementwise("v * v"))
        with pytest.raises(soak.WrongResult, match="functions"):
            program.interrupted(SimpleNamespace(expected=False), random.Random(), compiles=True)


def test_growth_is_of_the_last_third_over_the_one_before(soak: ModuleType) -> None:
    mib = 1 << 20

    def samples(buffers: list[int], rss_mib: list[float]) -> list[Any]:
        return [soak.Sample({"Buffer": n}, 64 * mib, int(rss * mib)) for n, rss in zip(buffers, rss_mib, strict=True)]

    assert soak.growth(samples([1, 5, 9, 9, 9, 7], [50, 90, 100, 101, 102, 106])) == []
    assert soak.growth(samples([1, 1, 9, 8, 9, 10], [100] * 6)) == ["open Buffer: at most 9, later 10"]
    [grown] = soak.growth(samples([1] * 6, [50, 80, 100, 100, 100, 108]))
    assert grown.startswith("bytes of RssAnon: at most 104,857,600, later 113,")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ns"),
        (4.4e-4, "440 us"),
        (1.234, "1.23 s"),
        (0.09999, "100 ms"),
        (0.9999, "1.00 s"),
        (-5e-6, "-5.00 us"),
    ],
)
def test_durations_have_three_digits(measure: ModuleType, seconds: float, text: str) -> None:
    import table

    assert table.duration(seconds) == text


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of that name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import mutations

    return mutations


@pytest.mark.pure
def test_mutations_depend_on_seed_and_number_only(mutations: ModuleType) -> None:
    words = np.frombuffer(vc.glsl("layout(local_size_x = 1) in; void main() {}"), np.uint32).tolist()
    results = [mutations.mutated([words], 7, number) for number in range(200)]
    assert results == [mutations.mutated([words], 7, number) for number in range(200)]
    assert len(set(results)) > 150
    assert all(len(data) % 4 == 0 for data in results)


@pytest.mark.pure
def test_a_module_that_kills_its_process_is_found_and_the_rest_goes_on(mutations: ModuleType, tmp_path: Path) -> None:
    child = (
        "import os\nfor n in range({}, {}): print(n, flush=True); n == 3 and os.abort(); print('refused', flush=True)"
    )

    class Fake(mutations.Campaign):  # type: ignore[misc,name-defined]
        def command(self, numbers: range) -> list[str]:
            return [sys.executable, "-c", child.format(numbers.start, numbers.stop)]

    campaign = Fake(dict(os.environ), tmp_path, 0)
    campaign.run(range(1, 6))
    assert campaign.outcomes == {"refused": 4}
    assert list(campaign.culprits) == [3]


def test_damaged_modules_do_not_kill_the_driver(mutations: ModuleType, tmp_path: Path) -> None:
    modules = [
        np.frombuffer(vc.glsl(text, target="vulkan1.1"), np.uint32).tolist() for text in mutations.SOURCES.values()
    ]
    (tmp_path / "corpus").write_bytes(pickle.dumps(modules))
    campaign = mutations.Campaign(dict(os.environ), tmp_path, 1)
    campaign.run(range(100))
    assert campaign.culprits == {}
    assert campaign.outcomes["refused"] > 50
    assert campaign.outcomes["accepted"] > 0


@pytest.mark.rotates
def test_the_hosts_time_is_measured_in_bare_launches(tmp_path: Path) -> None:
    options = ["--smoke", "--before", "--only", "x + ", "--json", str(tmp_path / "a")]
    command = [sys.executable, str(BENCHMARKS / "host.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "a").read_text())["rows"]
    assert [row["name"] for row in rows] == ["x + y", "x + line"]
    assert all(row["launches"] == row["us"] / row["unit_us"] > 0 for row in rows)
    assert all(row["before_us"] > row["us"] / 10 for row in rows), "of the unit's commit, else of this one"


def test_the_hosts_times_as_a_table() -> None:
    command = [sys.executable, str(BENCHMARKS / "host.py"), "--table"]
    head, line, *rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert head.startswith("| call | before | now, llvmpipe | now, SwiftShader | PyTorch |")
    assert {text.count("|") for text in (head, line, *rows)} == {6}
    assert any(row.startswith("| x + y | ") for row in rows)


def test_the_devices_work_is_compared_with_that_of_the_units_commit() -> None:
    command = [sys.executable, str(BENCHMARKS / "device_work.py"), "--smoke", "--size", "512"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert done.returncode == 0, done.stderr
    ratios = [float(text) for text in re.findall(r"([\d.]+) \([\d.]+\)", done.stdout)]
    assert len(ratios) == 2
    assert all(0.2 < ratio < 5 for ratio in ratios), "the same kernel, on arrays of 1 MiB"


def test_the_devices_work_as_a_table() -> None:
    command = [sys.executable, str(BENCHMARKS / "device_work.py"), "--table"]
    head, line, *rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert head.startswith("| call | SwiftShader, 64 | SwiftShader, 512 | llvmpipe, 64 |")
    assert {text.count("|") for text in (head, line, *rows)} == {6}
    assert any(row.startswith("| `putmask(x, mask, y)` | ") for row in rows)


def test_programs_of_cuda_are_compared_with_the_interface_that_sees_a_gpu(tmp_path: Path) -> None:
    """Ours stand for Numba and CuPy, whose GPU the machine lacks."""
    program = """
import importlib, sys
import cuda_programs
stand_ins = {"numba": None, "cupy": importlib.import_module("vkcompute.compat.cupy")}
cuda_programs.theirs = stand_ins.get
cuda_programs.main()
"""
    results = tmp_path / "results.json"
    command = [sys.executable, "-c", program, "--size", "4096", "--rounds", "1", "--json", str(results)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(BENCHMARKS)}, capture_output=True, text=True, check=False,
        timeout=hang_limit_s(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "numba sees no GPU of CUDA here: no ratios" in done.stdout
    rows = json.loads(results.read_text())["rows"]
    assert [row["program"] for row in rows if row["interface"] == "numba"] == [
        "vector sum", "Black-Scholes", "stencil", "tiled product", "n-body", "reduction", "histogram",
    ]  # fmt: skip
    assert {row["theirs_over_ours"] is None for row in rows if row["interface"] == "numba"} == {True}
    assert all(row["theirs_over_ours"] > 0 for row in rows if row["interface"] == "cupy")
    assert len(rows) == 14
