"""Train on a table larger than the memory given to the workers, on all devices together: timeline.png, a row each.

1 GB of which workers hold half, the rest on disk:
python dask_training.py --rows 2_500_000 --chunk 100_000 --device-memory 128MiB --memory-limit 512MiB
"""

import argparse
import logging
from collections import Counter

import numpy as np

import vkcompute as vc

try:
    import dask
    import dask.array as da
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    import vkcompute.dask
except ImportError as error:
    raise SystemExit(f"this example needs {error.name}: pip install 'vkcompute[dask,plot]'") from None

FEATURES, STEPS = 100, 10


def labels_of(block):
    """The labels of a chunk, from its features."""
    return (np.asarray(block).sum(axis=1) > 0).astype(np.int8)


def spans(tasks):
    """Yields the worker, the start and the stop of the tasks."""
    for task in tasks:
        for span in task["startstops"]:
            if span["action"] == "compute":
                yield task["worker"], span["start"], span["stop"]


def draw(tasks, devices, path):
    """Draws a bar per task, a row per worker."""
    rows, first = list(devices), min(start for _, start, _ in spans(tasks))
    figure, axes = plt.subplots(figsize=(9, 1 + 0.6 * len(rows)))
    for worker, start, stop in spans(tasks):
        row = rows.index(worker)
        axes.barh(row, stop - start, left=start - first, edgecolor="white", color=f"C{row}")
    axes.set(xlabel="seconds", yticks=range(len(rows)), yticklabels=[devices[each].split(" (")[0] for each in rows])
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64_000)
    parser.add_argument("--chunk", type=int, default=8_000, help="rows of a chunk")
    parser.add_argument("--device-memory", default="4MiB", help="of a device, for results; others go to the host")
    parser.add_argument("--memory-limit", default="auto", help="of a worker's host memory; others go to disk")
    options = parser.parse_args()
    dask.config.set({"array.backend": "vkcompute"})
    with (
        vkcompute.dask.LocalCluster(
            workers_per_device=2 if len(vc.devices()) == 1 else 1,
            device_memory=options.device_memory,
            memory_limit=options.memory_limit,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        vkcompute.dask.Client(cluster) as client,
    ):
        client.wait_for_workers(len(cluster.worker_spec))
        client.get_task_stream()  # starts the recording
        shape = options.rows, FEATURES
        table = da.random.default_rng(1).normal(size=shape, chunks=(options.chunk, FEATURES))
        labels = table.map_blocks(labels_of, dtype=np.int8, meta=np.empty(0, np.int8), drop_axis=1)
        model = vc.LogisticRegression(None, solver="gradient", learning_rate=1.0, max_iter=STEPS, tol=None).fit(
            table, labels
        )
        print(f"trained on {options.rows} rows in {len(table.chunks[0])} chunks; loss {model.loss_curve_[-1]:.2f}")
        tasks = [item for item in client.get_task_stream() if "_sums" in str(item["key"])]
        devices = client.run(lambda: vc.default_runtime().device.name)
        moved = client.run(lambda dask_worker: dask_worker.data.n_spilled)
        disk = client.run(lambda dask_worker: dask_worker.data.cumulative_metrics["disk-write", "bytes"])
        counts = Counter(worker for worker, _, _ in spans(tasks))
        for worker, name in devices.items():
            print(f"{name}: {counts[worker]} tasks")
            print(f"  chunks to the host: {moved[worker]}; MiB to disk: {disk[worker] / 2**20:.0f}")
        draw(tasks, devices, "timeline.png")
        print(f"timeline.png: {len(counts)} workers")


if __name__ == "__main__":
    main()
