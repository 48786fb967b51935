"""Caches that rot, disks that refuse, processes that die while they write."""

from __future__ import annotations

import ast
import errno
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute import disk

pytestmark = pytest.mark.pure


@pytest.fixture
def not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_warned", False)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("linux", {}, "HOME/.cache/vkcompute"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/vkcompute"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "HOME/.cache/vkcompute"),
        ("linux", {"XDG_CACHE_HOME": ""}, "HOME/.cache/vkcompute"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "HOME/Library/Caches/vkcompute"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/vkcompute"),
        ("win32", {}, "HOME/AppData/Local/vkcompute"),
        ("win32", {"VKCOMPUTE_CACHE_DIR": "/own", "LOCALAPPDATA": "/local"}, "/own/vkcompute"),
        ("linux", {"VKCOMPUTE_CACHE_DIR": "own", "XDG_CACHE_HOME": "/x"}, "own/vkcompute"),
    ],
)
def test_cache_folder(monkeypatch: pytest.MonkeyPatch, platform: str, env: dict[str, str], expected: str) -> None:
    for name in ("VKCOMPUTE_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("HOME"))
    monkeypatch.setattr(sys, "platform", platform)
    folder = disk.cache_folder()
    monkeypatch.undo()
    assert folder.as_posix() == expected


@pytest.mark.usefixtures("not_warned")
def test_without_a_home_directory_the_cache_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VKCOMPUTE_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.chdir(tmp_path)
    entry = disk.cache_folder() / "python" / ("0" * 64)
    disk.write_cached(entry, b"content")
    assert disk.read_cached(entry) is None
    assert disk.clear_cache() == disk.cache_entries() == []
    with pytest.raises(PermissionError, match="names no home directory"):
        disk.require_usable_cache()
    assert files(tmp_path) == set()
    assert "since ~ names no home directory; set VKCOMPUTE_CACHE_DIR to another folder" in caplog.text


@given(content=st.binary(max_size=300))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("cache") / "a" / "b" / "entry"
    assert disk.read_cached(path) is None
    disk.write_cached(path, content)
    assert disk.read_cached(path) == content
    assert files(path.parent) == {"entry"}


def test_every_truncation_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    disk.write_cached(path, b"content")
    whole = path.read_bytes()
    for nbytes in range(len(whole)):
        path.write_bytes(whole[:nbytes])
        assert disk.read_cached(path) is None, nbytes
        assert not path.exists()


def test_every_flipped_bit_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    disk.write_cached(path, b"content")
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert disk.read_cached(path) is None, bit
        assert path.exists() == (bit < 8 * len(disk.MAGIC)), "without its first bytes, it may be the user's"
    path.write_bytes(whole + b"\0")
    assert disk.read_cached(path) is None


posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of POSIX")


@posix
@pytest.mark.usefixtures("not_warned")
@pytest.mark.parametrize(("which", "mode"), [("cache", 0o777), ("cache", 0o770), ("cache", 0o1777), ("parent", 0o775)])
def test_a_folder_that_others_can_write_is_not_used(
    tmp_path: Path, which: str, mode: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    user = pwd.getpwuid(os.geteuid())
    group = grp.struct_group((user.pw_name, "", user.pw_gid, [user.pw_name, "another"]))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    path = tmp_path / "parent" / "cache" / "entry"
    disk.write_cached(path, b"content")
    folder = {"cache": path.parent, "parent": path.parent.parent}[which]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder.chmod(mode)
    assert disk.read_cached(path) is None
    disk.write_cached(path, b"other")
    assert f"{folder} can be written by other users (mode {mode:04o}; chmod go-w)" in caplog.text
    folder.chmod(0o755)
    assert disk.read_cached(path) == b"content"


@posix
def test_a_group_of_the_user_alone_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache" / "entry"
    disk.write_cached(path, b"content")
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    user = pwd.getpwuid(os.geteuid())
    os.chown(path.parent, -1, user.pw_gid)
    path.parent.chmod(0o775)
    for name, members, result in (
        (user.pw_name, [], b"content"),
        (user.pw_name, [user.pw_name], b"content"),
        ("users", [], None),
    ):
        group = grp.struct_group((name, "", user.pw_gid, members))
        monkeypatch.setattr(grp, "getgrgid", lambda _, group=group: group)
        assert disk.read_cached(path) == result


@posix
def test_a_sticky_parent_and_a_link_to_the_cache_are_fine(tmp_path: Path) -> None:
    disk.write_cached(tmp_path / "real" / "entry", b"content")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    tmp_path.chmod(0o1777)
    assert disk.read_cached(tmp_path / "real" / "entry") == b"content"
    assert disk.read_cached(tmp_path / "link" / "entry") == b"content"


@posix
@pytest.mark.parametrize("owned", ["folder", "entry", "parent"])
def test_what_belongs_to_another_user_is_not_used(tmp_path: Path, owned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "parent" / "cache" / "entry"
    disk.write_cached(path, b"content")
    inode = {"folder": path.parent, "entry": path, "parent": path.parent.parent}[owned].stat().st_ino
    monkeypatch.setattr(os, "stat", given_away(os.stat, inode))
    monkeypatch.setattr(os, "fstat", given_away(os.fstat, inode))
    assert disk.read_cached(path) is None


def given_away(function: Any, inode: int) -> Any:
    """`os.stat` where one file belongs to another user, which only root can bring about."""

    def call(*args: Any, **options: Any) -> os.stat_result:
        info = function(*args, **options)
        fields = list(info)
        fields[stat.ST_UID] += 4321 * (info.st_ino == inode)
        return os.stat_result(fields)

    return call


@posix
@pytest.mark.parametrize("kind", ["link", "pipe", "large", "writable"])
def test_only_regular_files_of_the_user_are_entries(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "cache" / "entry", tmp_path / "cache" / "other"
    disk.write_cached(other, b"content")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        disk.write_cached(path, b"content")
        monkeypatch.setattr(disk, "LIMIT_NBYTES", 40)
    else:
        disk.write_cached(path, b"content")
        path.chmod(0o666)
    assert disk.read_cached(path) is None
    monkeypatch.undo()
    not_ours = kind in ("link", "pipe")
    assert os.path.lexists(path) == not_ours
    disk.write_cached(path, b"new")
    assert (disk.read_cached(path), disk.read_cached(other)) == (None if not_ours else b"new", b"content")


def test_a_folder_in_the_place_of_an_entry_is_no_error_when_written(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    disk.write_cached(tmp_path / "entry", b"content")
    assert disk.read_cached(tmp_path / "entry") is None


@pytest.mark.usefixtures("not_warned")
def test_a_file_of_another_program_is_neither_used_nor_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / ("0" * 64)
    path.write_bytes(b"what another program left here")
    with caplog.at_level(logging.DEBUG, "vkcompute.disk"):
        assert disk.read_cached(path) is None
    assert [(record.levelno, str(path) in record.message) for record in caplog.records] == [(logging.DEBUG, True)]
    disk.keep_cached(path, b"content")
    disk.prune(tmp_path, 0)
    assert path.read_bytes() == b"what another program left here"
    assert "a file of another program has its name" in caplog.text


def test_a_folder_in_the_place_of_an_entry_reads_as_absent(tmp_path: Path) -> None:
    assert disk.read_cached(tmp_path) is None
    assert tmp_path.is_dir()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError) as raised:
        disk.write_atomic(path.parent / "absent" / "file", b"new")
    assert raised.value.filename == str(path.parent / "absent" / "file")  # and not a temporary one
    disk.write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        disk.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == {"file"}


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        disk.write_cached(tmp_path / "file", b"new")
    assert files(tmp_path) == set()


@pytest.mark.usefixtures("not_warned")
def test_a_disk_that_refuses_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with caplog.at_level(logging.DEBUG, "vkcompute.disk"):
        for name in ("a", "b", "c"):
            disk.write_cached(blocked / name, b"content")
            assert disk.read_cached(blocked / name) is None
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG"]
    assert "VKCOMPUTE_CACHE_DIR" in caplog.records[0].message
    assert str(blocked / "a") in caplog.records[0].message


@pytest.mark.usefixtures("not_warned")
@pytest.mark.parametrize("made_again", [False, True])
def test_a_folder_deleted_while_it_is_made_costs_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, made_again: bool
) -> None:
    make, is_dir = os.mkdir, Path.is_dir

    def found(path: Any, mode: int = 0o777) -> None:
        if Path(path) == folder:  # there, and gone when pathlib looks whether it is a folder
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        make(path, mode)

    def gone(path: Path) -> bool:
        if path != folder:
            return is_dir(path)
        if made_again:  # by another process, a moment later
            make(path)
        return False

    folder = tmp_path / "python"
    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, "vkcompute.disk"):
        patch.setattr(os, "mkdir", found)
        patch.setattr(Path, "is_dir", gone)
        disk.write_cached(folder / "entry", b"content")
    assert caplog.records == []
    if made_again:
        folder.rmdir()
    folder.write_text("in the way")
    disk.write_cached(folder / "entry", b"content")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_readers_see_one_whole_entry_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    contents = {bytes([i]) * 100_000 for i in range(4)}
    disk.write_cached(path, next(iter(contents)))
    seen: list[bytes | None] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(disk.read_cached(path))

    def write(content: bytes) -> None:
        for _ in range(10):
            disk.write_cached(path, content)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert set(seen) <= contents
    assert files(tmp_path) == {"entry"}


WRITE_FOREVER = """
import sys
from pathlib import Path
from vkcompute import disk
print("ready", flush=True)
while True:
    for byte in (b"a", b"b"):
        disk.write_cached(Path(sys.argv[1]), byte * 1_000_000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_writer_leaves_a_whole_entry(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    disk.write_cached(path, b"a" * 1_000_000)
    for delay_s in (0.0, 0.003, 0.007, 0.011):
        command = [sys.executable, "-c", WRITE_FOREVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
        assert disk.read_cached(path) in (b"a" * 1_000_000, b"b" * 1_000_000)


def aged(path: Path, content: bytes, age_s: float) -> Path:
    path.write_bytes(content)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_prune_drops_the_oldest_entries_first_and_nothing_else(tmp_path: Path) -> None:
    def entry(digit: str, nbytes: int, age_s: float) -> str:
        return aged(tmp_path / (digit * 64), disk.MAGIC + b"x" * (nbytes - 8), age_s).name

    new, old, middle, oldest = entry("a", 50, 1), entry("b", 10, 300), entry("c", 45, 200), entry("d", 9, 400)
    (tmp_path / "subfolder").mkdir()
    users = [
        aged(tmp_path / name, content, 500)
        for name, content in (
            ("measurement.raw", b"x" * 1000),
            ("e" * 64, b"x" * 1000),  # named after its digest
            ("thesis.bin", disk.MAGIC + b"x" * 1000),
            ("f" * 40, disk.MAGIC + b"x" * 1000),
            (f"subfolder/{'a' * 64}", disk.MAGIC + b"x" * 1000),
        )
    ]
    kept = {path.name for path in users[:-1]} | {"subfolder"}
    disk.prune(tmp_path, 114)
    assert files(tmp_path) == {new, old, middle, oldest} | kept
    disk.prune(tmp_path, 96)
    assert files(tmp_path) == {new, middle} | kept  # 114 - 9 is still too much
    disk.prune(tmp_path, 0)
    assert files(tmp_path) == kept
    assert [len(path.read_bytes()) for path in users] == [1000, 1000, 1008, 1008, 1008]


def test_prune_keeps_new_entries_after_the_clock_was_set_back(tmp_path: Path) -> None:
    for digit, age_s in (("a", -3e7), ("b", -2e7), ("c", 10), ("d", 5)):
        aged(tmp_path / (digit * 64), disk.MAGIC + b"x" * 92, age_s)
    disk.prune(tmp_path, 200)
    assert files(tmp_path) == {"c" * 64, "d" * 64}


KILLED = """
import os, signal, sys
from vkcompute import disk
with disk.replacing(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half of the")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_what_killed_writers_left_is_deleted_and_a_live_one_is_spared(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "out.npy")], check=False)
    left = files(tmp_path)
    assert len(left) == 2
    disk.remove_abandoned(tmp_path)
    assert files(tmp_path) == left, "its writer may not have locked it yet"
    with disk.replacing(tmp_path / "live.npy") as live:
        (marker,) = files(tmp_path) - left - {live.name}
        for name in files(tmp_path):
            os.utime(tmp_path / name, (1e9, 1e9))
        disk.remove_abandoned(tmp_path)
        assert files(tmp_path) == {live.name, marker}
    disk.remove_abandoned(tmp_path / "no folder")
    assert files(tmp_path) == {"live.npy"}


@pytest.mark.parametrize("clock_s", [7200, -7200])
def test_files_of_the_user_are_no_temporary_ones(tmp_path: Path, clock_s: int) -> None:
    digits = "0123456789abcdef"
    mark = disk._MARK + f".writing-{digits}".encode()
    users = {
        ".writing-plan.txt": b"mine",
        f".writing-{digits}": b"mine",
        f".writing-{digits}.npy": b"mine",
        ".writing-2.npy": b"mine",
        ".vkcompute-writing-plan": disk._MARK + b".writing-2.npy",
        f".vkcompute-writing-{digits}": b"mine, too",
        f".vkcompute-writing-{digits[::-1]}": mark,  # of another
        ".vkcompute-writing-00000000000000aa": disk._MARK + b".writing-00000000000000aa/../plan.txt",
        "plan.txt": b"mine",
    }
    for name, content in users.items():
        aged(tmp_path / name, content, clock_s)
    disk.remove_abandoned(tmp_path)
    disk.prune(tmp_path, 0)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == users
    aged(tmp_path / f".vkcompute-writing-{digits}", mark + b".npy", clock_s)
    disk.remove_abandoned(tmp_path)
    assert files(tmp_path) == users.keys() - {f".writing-{digits}.npy", f".vkcompute-writing-{digits}"}


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe")
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ValueError, match="pipe is a device or a pipe"):
        disk.write_atomic(path, b"content")
    with pytest.raises(ValueError, match="is a folder"):
        disk.write_atomic(tmp_path, b"content")
    assert files(tmp_path) == {"pipe"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    with open(tmp_path / "out", "wb") as file:
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        with pytest.raises(ValueError, match="is an open file of a process; name the file itself"):
            disk.write_atomic(tmp_path / name.format(file.fileno()), b"content")
        file.write(b"of its holder")
    assert (tmp_path / "out").read_bytes() == b"of its holder"


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # without a name, as of a write

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*model\.npz'"):
        disk.write_atomic(tmp_path / "model.npz", b"content")


def test_prune_of_no_folder_does_nothing(tmp_path: Path) -> None:
    disk.prune(tmp_path / "absent", 0)


WRITES = re.compile(r"\.(write_text|write_bytes|savefig|tofile)\(|open\([^)]*[\"'][wxa]b?[\"']")
OF_OTHERS = {
    "cli/logreg.py _draw",  # the caller's temporary file
    "compilers/command_line.py optimized",  # in a temporary folder
    "gpu_report/figures/triton.py _module",  # the same
    "gpu_report/report.py create",  # a new file, one page in one write: it replaces none
}


def test_outputs_replace_a_file_once_they_are_whole() -> None:
    """A process that is killed while it writes leaves the old file: outputs go through `replacing`."""
    package, unsafe = Path(disk.__file__).parent, set()
    for path in package.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if path.name == "disk.py" or not WRITES.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                text = ast.get_source_segment(source, node) or ""
                if WRITES.search(text) and not re.search(r"replacing\(|write_whole\(", text):
                    unsafe.add(f"{path.relative_to(package).as_posix()} {node.name}")
    assert unsafe == OF_OTHERS
