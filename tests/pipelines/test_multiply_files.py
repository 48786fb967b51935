"""The array multiply on .npy files: whole or not at all, whatever the file."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
from vkcompute.pipelines.npy_file import NpyFile


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a.npy and b.npy, float32 of shape (300, 100)."""
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.random((300, 100), np.float32))
    return tmp_path


def multiplied(gpu: vc.Runtime, folder: Path, chunk_bytes: int = 1 << 14) -> None:
    vc.multiply_files(folder / "a.npy", folder / "b.npy", folder / "c.npy", runtime=gpu, chunk_bytes=chunk_bytes)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_product_of_files(gpu: vc.Runtime, files: Path) -> None:
    multiplied(gpu, files)
    a, b, c = (np.load(files / f"{name}.npy") for name in "abc")
    assert np.array_equal(c, a * b)
    assert names(files) == {"a.npy", "b.npy", "c.npy"}


SHAPES = [
    ((30, 4), (4,)), ((4,), (30, 4)), ((30, 1), (1, 4)), ((0, 3), (3,)), ((2, 3, 4), (3, 1)), ((3, 4), ()),
    ((1,), (3,)), ((30, 4), (30, 4)),
]  # fmt: skip


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("types", [("f", "f"), ("f", "i"), ("?", "f"), ("i", "?"), ("F", "f"), ("i", "I")])
def test_shapes_broadcast_and_dtypes_are_promoted(
    gpu: vc.Runtime,
    tmp_path: Path,
    shapes: tuple[tuple[int, ...], ...],
    types: tuple[str, str],
    order: Literal["C", "F"],
) -> None:
    rng = np.random.default_rng(1)
    if lacks(gpu, np.result_type(*types).name):
        pytest.skip("the device lacks the product's dtype")
    given = [(rng.normal(size=shape) * 5).astype(dtype) for shape, dtype in zip(shapes, types, strict=True)]
    for name, data in zip("ab", given, strict=True):
        np.save(tmp_path / f"{name}.npy", np.array(data, order=order))
    multiplied(gpu, tmp_path, 64)
    result, expected = np.load(tmp_path / "c.npy"), given[0] * given[1]
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_shapes_that_do_not_broadcast(gpu: vc.Runtime, files: Path) -> None:
    np.save(files / "b.npy", np.ones((3, 100), np.float32))
    with pytest.raises(ValueError, match=r"shapes must be equal or broadcast; got \(300, 100\) and \(3, 100\)"):
        multiplied(gpu, files)
    assert names(files) == {"a.npy", "b.npy"}


def test_in_place_and_with_a_number(gpu: vc.Runtime, files: Path) -> None:
    a = np.load(files / "a.npy")
    got = vc.multiply_files(files / "a.npy", 3, files / "a.npy", runtime=gpu, chunk_bytes=1000)
    assert isinstance(got, np.memmap)
    assert np.array_equal(np.load(files / "a.npy"), a * np.float32(3))


@pytest.mark.parametrize("orders", ["FF", "CF", "FC"])
def test_fortran_order_is_kept_from_the_first_file(gpu: vc.Runtime, files: Path, orders: str) -> None:
    for name, order in zip("ab", orders, strict=True):
        np.save(files / f"{name}.npy", np.array(np.load(files / f"{name}.npy"), order=order))
    multiplied(gpu, files)
    a, b, c = (np.load(files / f"{name}.npy") for name in "abc")
    assert np.array_equal(c, a * b)
    assert c.flags.f_contiguous == (orders[0] == "F")


def test_empty_and_zero_dimensional_files(gpu: vc.Runtime, files: Path) -> None:
    for array in (np.empty((0, 5), np.float32), np.array(2.5, np.float32)):
        np.save(files / "a.npy", array)
        np.save(files / "b.npy", array)
        multiplied(gpu, files)
        got = np.load(files / "c.npy")
        assert got.shape == array.shape
        assert np.array_equal(got, array * array)


def test_a_truncated_file_is_named_with_what_it_needs(gpu: vc.Runtime, files: Path) -> None:
    whole = (files / "b.npy").read_bytes()
    for nbytes in (len(whole) - 1, len(whole) // 2, 200):
        (files / "b.npy").write_bytes(whole[:nbytes])
        with pytest.raises(vc.DataError, match=rf"b\.npy.*{len(whole)} bytes, the file has {nbytes}; it is truncated"):
            multiplied(gpu, files)
    assert names(files) == {"a.npy", "b.npy"}


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"a,b\n1,2\n", b"\x93NUMPY\x09\x00v\x00" + b"x" * 100])
def test_what_is_no_npy_file(gpu: vc.Runtime, files: Path, content: bytes) -> None:
    (files / "b.npy").write_bytes(content)
    with pytest.raises(vc.DataError, match=r"b\.npy is not a complete \.npy file"):
        multiplied(gpu, files)


def test_objects_archives_and_foreign_byte_order_are_refused(gpu: vc.Runtime, files: Path) -> None:
    np.save(files / "b.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(vc.DataError, match="Python objects"):
        multiplied(gpu, files)
    archive = io.BytesIO()
    np.savez(archive, x=np.ones(3))
    (files / "b.npy").write_bytes(archive.getvalue())
    with pytest.raises(vc.DataError, match=r"\.npz archive"):
        multiplied(gpu, files)
    np.save(files / "b.npy", np.ones((300, 100), ">f4"))
    with pytest.raises(TypeError, match=r"b\.npy.*astype\('float32'\)"):
        multiplied(gpu, files)


def test_a_missing_file_and_a_missing_folder(gpu: vc.Runtime, files: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.npy"):
        vc.multiply_files(files / "nothing.npy", files / "b.npy", files / "c.npy", runtime=gpu)
    with pytest.raises(FileNotFoundError):
        vc.multiply_files(files / "a.npy", files / "b.npy", files / "no folder" / "c.npy", runtime=gpu)


def test_a_failure_leaves_the_old_result(gpu: vc.Runtime, files: Path) -> None:
    multiplied(gpu, files)
    before = (files / "c.npy").read_bytes()

    def fail(done: int, _total: int) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        vc.multiply_files(files / "a.npy", 2, files / "c.npy", runtime=gpu, chunk_bytes=1000, progress=fail)
    assert (files / "c.npy").read_bytes() == before
    assert names(files) == {"a.npy", "b.npy", "c.npy"}


def test_mismatched_shapes_leave_nothing(gpu: vc.Runtime, files: Path) -> None:
    np.save(files / "b.npy", np.ones((100, 300), np.float32))
    with pytest.raises(ValueError, match=r"\(300, 100\) and \(100, 300\)"):
        multiplied(gpu, files)
    assert names(files) == {"a.npy", "b.npy"}


@pytest.mark.parametrize("orders", ["CC", "CF"])
def test_an_input_that_is_truncated_meanwhile_is_an_error(gpu: vc.Runtime, files: Path, orders: str) -> None:
    for name, order in zip("ab", orders, strict=True):
        np.save(files / f"{name}.npy", np.array(np.load(files / f"{name}.npy"), order=order))

    def truncate(_done: int, _total: int) -> None:
        os.truncate(files / "b.npy", 40_000)

    with pytest.raises(vc.DataError, match=r"b\.npy was truncated while it was read; 120000 bytes were expected"):
        vc.multiply_files(*(files / f"{x}.npy" for x in "abc"), runtime=gpu, chunk_bytes=1 << 12, progress=truncate)
    assert names(files) == {"a.npy", "b.npy"}


ON_A_FULL_DISK = """
mount -t tmpfs -o size=64k tmpfs full 2>/dev/null || exit 77
"$0" -m vkcompute multiply a.npy 2 -o full/c.npy
status=$?
ls -A full
exit $status
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_a_full_disk_is_an_error(gpu: vc.Runtime, files: Path) -> None:
    (files / "full").mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_FULL_DISK, sys.executable]
    root = str(Path(vc.__file__).parent.parent)
    try:
        done = subprocess.run(
            command, cwd=files, env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if done.returncode in (1, 77) and "vkcompute" not in done.stderr:
        pytest.skip("users may not mount a file system here")
    assert done.stderr == "vkcompute: error: full/c.npy: No space left on device\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_limited_file_size_is_an_error(gpu: vc.Runtime, files: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*c\.npy'"):
            multiplied(gpu, files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(files) == {"a.npy", "b.npy"}


def test_without_a_reservation_the_write_itself_fails(
    gpu: vc.Runtime, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")  # as on macOS
    test_a_limited_file_size_is_an_error(gpu, files)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe")
def test_an_output_that_is_a_pipe_stays_one(gpu: vc.Runtime, files: Path) -> None:
    os.mkfifo(files / "c.npy")
    with pytest.raises(ValueError, match=r"c\.npy is a device or a pipe"):
        multiplied(gpu, files)
    assert (files / "c.npy").is_fifo()
    (files / "b.npy").unlink()
    os.mkfifo(files / "b.npy")  # as an input, it has no writer
    with pytest.raises(vc.DataError, match=r"b\.npy is a pipe or a device"):
        multiplied(gpu, files)


slices = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda pair: slice(min(pair), max(pair)))


@pytest.mark.pure
@given(
    shape=st.lists(st.integers(0, 4), max_size=4).map(tuple),
    order=st.sampled_from("CF"),
    data=st.data(),
)
def test_blocks_of_a_file_are_those_of_the_array(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], order: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "x.npy"
    expected = np.zeros(shape, np.int16, order)  # type: ignore[call-overload]
    with open(path, "wb") as file:
        written = NpyFile.write(file, shape, np.dtype(np.int16), order == "F")
        for step in range(1, 4):
            block = tuple(data.draw(slices) for _ in shape)
            expected[block] += np.arange(math.prod(expected[block].shape)).reshape(expected[block].shape) + step
            written[block] = expected[block]
    with open(path, "rb") as file:
        stored = NpyFile.read(file, path)
        np.testing.assert_array_equal(stored[(slice(None),) * len(shape)], expected)
        np.testing.assert_array_equal(stored.flat()[(slice(None),)], expected.reshape(-1, order=order))  # type: ignore[call-overload]
        block = tuple(data.draw(slices) for _ in shape)
        np.testing.assert_array_equal(stored[block], expected[block])
    np.testing.assert_array_equal(np.load(path), expected)


@pytest.mark.pure
@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "(" * 200,
        "-" * 3000 + "1",
        "[" * 90 + "]" * 90,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 4000 + ",)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 1000 + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 10000000000000000000000)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904)}",
        "{'descr': '<f4', 'fortran_order': 2, 'shape': ()}",
        "{'descr': ('<f4', ('<f4',)), 'fortran_order': False, 'shape': ()}",
        "{[]: 1}",
        "'\\d'",
        "\0",
    ],
)
def test_a_damaged_header_is_an_error_of_one_line(
    tmp_path: Path, header: str, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "a.npy"
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x01\x07"):
        length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
        path.write_bytes(b"\x93NUMPY" + version + length + header.encode() + bytes(24))
        with open(path, "rb") as file, pytest.raises(vc.DataError) as raised:
            NpyFile.read(file, path)
        assert "a.npy is not a complete .npy file: its first" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert not recwarn.list


@pytest.mark.pure
def test_a_large_array_of_one_gigabyte_is_truncated_and_not_allocated(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,)}"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with open(path, "rb") as file, pytest.raises(vc.DataError, match="needs 4000000000000080 bytes, the file has 80"):
        NpyFile.read(file, path)
