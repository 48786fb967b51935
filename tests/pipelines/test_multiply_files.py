"""The array multiply on .npy files: whole or not at all, whatever the file."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc


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
    with pytest.raises(vc.DataError, match="npz archive"):
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
