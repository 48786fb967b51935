"""The nearest neighbours of points, beside scikit-learn or NumPy.

python examples/nearest_neighbours.py --points 200_000 --queries 2_000 --plot neighbours.png
"""

import argparse
from time import perf_counter

import numpy as np

import vkcompute.numpy as vnp
from vkcompute import neighbours


def on_host(points, queries, k):
    """Returns the same indices by scikit-learn, or by NumPy if it is not installed, and the library's name."""
    try:
        from sklearn.neighbors import NearestNeighbors
    except ImportError:
        distances = (points**2).sum(axis=1) - 2 * queries @ points.T
        return np.argsort(distances, axis=1, kind="stable")[:, :k], "NumPy"
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points)
    return search.kneighbors(queries, return_distance=False), "scikit-learn"


def clouds(n, dimensions):
    """Returns points around 8 centres."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-10, 10, (8, dimensions))
    return (centres[np.arange(n) % 8] + rng.normal(size=(n, dimensions))).astype(np.float32)


def plot(points, queries, indices, path):
    """Draws some queries and their neighbours in the first two dimensions."""
    from matplotlib import pyplot

    shown = points[:: len(points) // 5_000 | 1]  # an odd step reaches all clouds
    pyplot.figure(figsize=(6, 6))
    pyplot.scatter(*shown[:, :2].T, s=1, color="lightgray", label="points")
    near = points[indices[:8].reshape(-1)]
    pyplot.scatter(*near[:, :2].T, s=10, label="nearest neighbours")
    pyplot.scatter(*queries[:8, :2].T, s=60, marker="+", color="black", label="queries")
    pyplot.legend()
    pyplot.savefig(path)


def distances(points, queries, indices):
    return np.linalg.norm(points[indices].astype(np.float64) - queries[:, None], axis=2)


def main(points=5_000, queries=200, dimensions=8, k=5, plot_path=None):
    data = clouds(points + queries, dimensions)
    data, asked = data[:points], data[points:]
    x, q = vnp.array(data), vnp.array(asked)
    neighbours.nearest(x, q, k)  # compiles the kernels
    start = perf_counter()
    indices = neighbours.nearest(x, q, k).indices.numpy()
    on_device = perf_counter() - start
    expected, name = on_host(data, asked, k)
    start = perf_counter()
    on_host(data, asked, k)
    print(f"{k} of {points} points for {queries} queries: {on_device:.3f} s; {name}: {perf_counter() - start:.3f} s")
    same = np.allclose(distances(data, asked, indices), distances(data, asked, expected), rtol=1e-2, atol=1e-2)
    print("distances equal the host's:", same)
    if plot_path:
        plot(data, asked, indices, plot_path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Finds nearest neighbours on the device, and compares them.")
    parser.add_argument("--points", type=int, default=5_000, help="number of points")
    parser.add_argument("--queries", type=int, default=200, help="number of points to find neighbours of")
    parser.add_argument("--dimensions", type=int, default=8, help="coordinates of a point")
    parser.add_argument("--k", type=int, default=5, help="number of neighbours")
    parser.add_argument("--plot", dest="plot_path", help="file of a plot of a few queries")
    main(**vars(parser.parse_args()))
