"""Predicts with a model on the chunks of a table, a device a worker: `python dask_predictions.py`."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import torch
from torch import nn

import vkcompute.dask
import vkcompute.torch


def predict(block: Any, model: nn.Module) -> Any:
    with torch.no_grad():
        return vkcompute.torch.array_of(model(vkcompute.torch.from_array(block)))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 3)).eval()
    rows = np.random.default_rng(0).normal(size=(803, 6)).astype(np.float32)
    expected = model(torch.from_numpy(rows)).detach().numpy()
    with vkcompute.dask.LocalCluster() as cluster, vkcompute.dask.Client(cluster):
        table = da.from_array(rows, chunks=(100, 6)).to_backend("vkcompute")
        empty = np.empty((0, 0), np.float32)
        scores = table.map_blocks(predict, model.to("vk"), chunks=(table.chunks[0], (3,)), meta=empty)
        np.testing.assert_allclose(scores.compute().numpy(), expected, rtol=1e-4, atol=1e-5)
        print(len(cluster.workers), "workers")


if __name__ == "__main__":
    main()
