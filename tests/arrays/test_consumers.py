"""What other libraries and Python's own functions do with device arrays."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp


@pytest.fixture
def x(gpu: vc.Runtime) -> vc.Array:
    return gpu.array(np.arange(6, dtype=np.float32))


class Lent:
    """Has `__dlpack__`, and nothing else."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)


def test_python(x: vc.Array) -> None:
    assert float(sum(x)) == 15
    assert float(max(x)) == 5
    assert f"{x[1]:.2f}" == "1.00"
    assert [10, 20, 30][vnp.asarray(2, device=x.device)] == 30
    assert 3 in x
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_dlpack_alone(gpu: vc.Runtime) -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    for result in (gpu.array(Lent(data.T)), vnp.from_dlpack(Lent(data.T), device=gpu)):
        np.testing.assert_array_equal(result.numpy(), data.T)


def test_matplotlib(x: vc.Array) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    (line,) = axes.plot(x, x * 2)
    np.testing.assert_array_equal(line.get_xydata(), np.stack([x.numpy(), 2 * x.numpy()], axis=1))
    assert axes.imshow(x.reshape(2, 3)).get_array().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert axes.hist(x, bins=3)[0].tolist() == [2, 2, 2]


def test_pandas(gpu: vc.Runtime, x: vc.Array) -> None:
    pandas = pytest.importorskip("pandas")
    assert pandas.Series(x).tolist() == x.tolist()
    assert pandas.DataFrame(x.reshape(2, 3)).to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    table = pandas.DataFrame({"a": x})
    assert (table.dtypes["a"], gpu.array(table["a"]).tolist()) == (np.float32, x.tolist())


def test_joblib(x: vc.Array, tmp_path: Any) -> None:
    joblib = pytest.importorskip("joblib")
    joblib.dump(x, tmp_path / "x")
    assert joblib.load(tmp_path / "x").tolist() == x.tolist()


def test_xarray(x: vc.Array) -> None:
    xarray = pytest.importorskip("xarray")
    result = (xarray.DataArray(x.reshape(2, 3), dims=("row", "column")) * 2).mean("row")
    assert type(result.data) is vc.Array
    assert result.data.tolist() == [3, 5, 7]


def test_torch(gpu: vc.Runtime, x: vc.Array) -> None:
    torch = pytest.importorskip("torch")
    assert vnp.from_dlpack(torch.arange(6).to(torch.int32).reshape(2, 3).T, device=gpu).tolist() == [
        [0, 3],
        [1, 4],
        [2, 5],
    ]
    assert torch.as_tensor(np.asarray(x)).tolist() == x.tolist()
    if gpu.device.memory.unified:
        assert torch.from_dlpack(x).tolist() == x.tolist()


def test_pillow(gpu: vc.Runtime) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = gpu.array(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    assert gpu.array(image.fromarray(pixels.numpy())).tolist() == pixels.tolist()
