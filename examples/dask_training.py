"""Train on a table in chunks, on a worker per device, and draw when each worker computed: timeline.png."""

import logging

import dask
import dask.array as da
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import vkcompute as vc
import vkcompute.dask

ROWS, FEATURES, CHUNK = 400_000, 16, 50_000


def labels_of(block):
    """The labels of a chunk, from its features."""
    return (np.asarray(block).sum(axis=1) > 0).astype(np.int8)


def draw(tasks, path):
    """Draws a bar per task of the gradient, a row per worker."""
    workers = sorted({each["worker"] for each in tasks})
    start = min(span["start"] for each in tasks for span in each["startstops"])
    figure, axes = plt.subplots(figsize=(9, 1 + 0.6 * len(workers)))
    for each in tasks:
        for span in each["startstops"]:
            if span["action"] == "compute":
                row = workers.index(each["worker"])
                axes.barh(row, span["stop"] - span["start"], left=span["start"] - start, edgecolor="white", color="C0")
    axes.set(xlabel="seconds", yticks=range(len(workers)), yticklabels=[f"worker {n}" for n in range(len(workers))])
    figure.tight_layout()
    figure.savefig(path)
    return len(workers)


def main():
    dask.config.set({"array.backend": "vkcompute"})
    options = {"workers_per_device": 2, "dashboard_address": None, "silence_logs": logging.ERROR}
    with vkcompute.dask.LocalCluster([0], **options) as cluster, vkcompute.dask.Client(cluster) as client:
        client.wait_for_workers(2)
        client.get_task_stream()  # starts the recording
        table = da.random.default_rng(1).normal(size=(ROWS, FEATURES), chunks=(CHUNK, FEATURES))
        labels = table.map_blocks(labels_of, dtype=np.int8, meta=np.empty(0, np.int8), drop_axis=1)
        model = vc.LogisticRegression(learning_rate=1.0, max_iter=10).fit(table, labels)
        print(f"trained on {ROWS} rows in {len(table.chunks[0])} chunks; loss {model.loss_curve_[-1]:.2f}")
        tasks = [each for each in client.get_task_stream() if "_sums" in str(each["key"])]
        print(f"timeline.png: {draw(tasks, 'timeline.png')} workers")


if __name__ == "__main__":
    main()
