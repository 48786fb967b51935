"""`vkcompute multiply`: the file holds what numpy computes, or there is no file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_done import Done
from hang_limit import hang_limit_s
from runtimes import lacks

import vkcompute

Run = Callable[..., Done]
Listing = Callable[[], list[str]]

pytestmark = pytest.mark.pure
posix = pytest.mark.skipif(sys.platform == "win32", reason="terminals and signals of POSIX")


@pytest.fixture(autouse=True)
def _device(gpu: vkcompute.Runtime) -> None:
    """Every test here needs one."""


@pytest.mark.parametrize("dtype", ["bool", "int16", "int64", "uint8", "float16", "float32", "float64"])
def test_the_product_is_that_of_numpy(
    vk: Run, gpu: vkcompute.Runtime, tmp_path: Path, dtype: str, listing: Listing
) -> None:
    a, b = (np.random.default_rng(seed).integers(0, 100, (37, 53)).astype(dtype) for seed in (0, 1))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    done = vk("multiply", "a.npy", "b.npy", "-o", "c.npy", "--chunk-bytes", "1K")
    if lacks(gpu, dtype):
        assert re.fullmatch(rf"vkcompute: error: .* cannot run multiply {dtype}: .*\n", done.err, re.DOTALL), done.err
        assert listing() == ["a.npy", "b.npy"]
        return
    assert done.err == ""
    assert re.match(rf"37 x 53 {dtype} in \S+ s, \S+ GB/s, on ", done.out)
    product = np.load(tmp_path / "c.npy")
    assert product.dtype == a.dtype
    np.testing.assert_array_equal(product, a * b)
    assert listing() == ["a.npy", "b.npy", "c.npy"]


@pytest.mark.parametrize(
    ("line", "dtype", "factor"),
    [("a.npy 2.5", "float32", 2.5), ("-3 a.npy", "int32", -3), ("a.npy -1e2", "float32", -100.0), ("2 a.npy", "u4", 2)],
)
def test_a_number_in_place_of_a_file(vk: Run, tmp_path: Path, line: str, dtype: str, factor: float) -> None:
    a = np.arange(10).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    assert vk("multiply", *line.split(), "-o", "c.npy").status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), a * a.dtype.type(factor))


def test_a_file_with_a_number_for_a_name_is_a_file(vk: Run, tmp_path: Path) -> None:
    a = np.arange(10, dtype=np.float32)
    with open(tmp_path / "2.5", "wb") as file:
        np.save(file, a)
    assert vk("multiply", "2.5", "2", "-o", "c.npy").status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), a * 2)


def test_the_output_line_fits_and_quiet_leaves_it_out(vk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    np.save(tmp_path / "a.npy", np.ones((1,) * 20, np.float32))
    assert len(vk("multiply", "a.npy", "a.npy", "-o", "c.npy").out.rstrip("\n")) <= 40
    assert vk("multiply", "a.npy", "a.npy", "-o", "c.npy", "-q") == Done(0, "", "")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Files of every kind; "old.npy" is not to be touched."""
    np.save(tmp_path / "a.npy", np.ones((4, 5), np.float32))
    np.save(tmp_path / "shape.npy", np.ones((5, 4), np.float32))
    np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "archive.npz", a=np.ones(3))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-1])
    (tmp_path / "header.npy").write_bytes(whole[:40])
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("1,2,3\n" * 50)
    (tmp_path / "old.npy").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a.npy shape.npy", r"\(4, 5\) and \(5, 4\)"),
        ("object.npy a.npy", "object.npy .*objects"),
        ("a.npy archive.npz", "archive.npz .*npz"),
        ("a.npy cut.npy", r"cut.npy .*208 bytes.* 207; it is truncated"),
        ("a.npy header.npy", "header.npy .*header"),
        ("empty.npy a.npy", "empty.npy .*empty"),
        ("a.npy text.npy", "text.npy .*header"),
        ("a.npy none.npy", "none.npy: No such file"),
        ("folder a.npy", "folder: Is a directory"),
        ("2 3", "both numbers"),
        ("a.npy 1e999", "1e999 exceeds the largest number, 1.79769e\\+308"),
        (f"a.npy {'9' * 5000}", f"{'9' * 40} exceeds the largest number"),
        ("a.npy 1j", "1j: No such file"),
        ("a.npy a.npy --device nothing", "no device fits 'nothing'"),
        ("a.npy a.npy -o none/c.npy", "the folder none does not exist"),
        ("a.npy a.npy -o folder", "folder is a folder"),
    ],
)
def test_wrong_input_leaves_no_trace(vk: Run, inputs: Path, line: str, says: str, listing: Listing) -> None:
    before = listing()
    output = [] if "-o" in line else ["-o", "old.npy"]
    assert re.search(says, vk("multiply", *line.split(), *output).error())
    assert listing() == before
    assert (inputs / "old.npy").read_bytes() == b"old"


@posix
def test_a_device_is_no_output(vk: Run, inputs: Path) -> None:
    assert "device" in vk("multiply", "a.npy", "a.npy", "-o", os.devnull).error()


@pytest.fixture
def long_work(tmp_path: Path) -> list[str]:
    """A command line that takes long: 64 MiB in very many chunks."""
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, (1 << 24,))
    return ["multiply", "a.npy", "2", "-o", "c.npy", "--chunk-bytes", "1K"]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + hang_limit_s(60)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@posix
@pytest.mark.parametrize(
    ("number", "says"), [("SIGINT", "interrupted"), ("SIGTERM", "stopped by SIGTERM"), ("SIGHUP", "stopped by SIGHUP")]
)
def test_a_signal_ends_it_and_leaves_nothing(
    vk_process: Callable[..., subprocess.Popen[str]], long_work: list[str], number: str, says: str, listing: Listing
) -> None:
    with vk_process(*long_work) as process:
        _until(lambda: len(listing()) > 1)  # the unfinished file is there
        assert "c.npy" not in listing()
        time.sleep(0.2)
        process.send_signal(signal.Signals[number])
        out, err = process.communicate(timeout=hang_limit_s())
    assert (out, err) == ("", f"vkcompute: {says}\n")
    assert process.returncode == 128 + signal.Signals[number]
    assert listing() == ["a.npy"]


@posix
def test_the_next_run_deletes_what_a_killed_one_left(
    vk: Run, vk_process: Callable[..., subprocess.Popen[str]], long_work: list[str], listing: Listing, tmp_path: Path
) -> None:
    with vk_process(*long_work) as process:
        _until(lambda: len(listing()) > 1)
        process.kill()
    left = [name for name in listing() if name != "a.npy"]
    assert left
    np.save(tmp_path / "b.npy", np.ones(4, np.float32))
    assert vk("multiply", "b.npy", "2", "-o", "c.npy").status == 0
    assert {*left} < {*listing()}  # a minute passes before a file is taken for abandoned
    for name in left:
        os.utime(tmp_path / name, (0, 0))
    assert vk("multiply", "b.npy", "2", "-o", "c.npy").status == 0
    assert listing() == ["a.npy", "b.npy", "c.npy"]


@pytest.mark.rotates
@posix
def test_a_bar_is_drawn_in_a_terminal_and_not_in_a_pipe(
    vk_process: Callable[..., subprocess.Popen[str]], vk_done: Callable[..., Done], tmp_path: Path
) -> None:
    pytest.importorskip("tqdm")
    import pty

    np.save(tmp_path / "a.npy", np.ones(1 << 22, np.float32))
    line = ["multiply", "a.npy", "2", "-o", "c.npy", "--chunk-bytes", "4K"]  # long enough for a bar
    master, slave = pty.openpty()
    with vk_process(*line, stderr=slave) as process:
        os.close(slave)
        drawn = b""
        while chunk := _read(master):
            drawn += chunk
        assert process.wait(hang_limit_s(60)) == 0
    os.close(master)
    states = [state for state in re.split(r"[\r\n]+", drawn.decode()) if state.strip()]
    assert any(state.startswith("multiply: ") and "%" in state for state in states)
    assert max(map(len, states)) <= 80
    assert vk_done(*line).err == ""


def _read(terminal: int) -> bytes:
    """Reads from a pseudo-terminal. Returns nothing once its other end is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
