"""k-means (Lloyd's algorithm) in array code: no kernel is written, and no array of all differences is stored.

python examples/kmeans.py --help
"""

import argparse

import numpy as np

import vkcompute.numpy as vnp
from vkcompute import Array, neighbours


def nearest(points, centres):
    """Returns the index of the nearest of `centres` (dimensions, k) for each of `points` (dimensions, n).

    On the host, that is the least of |c|^2 - 2 c x, as |x|^2 is the same for all centres of a point.
    """
    if isinstance(points, Array):
        return neighbours.nearest(centres.T, points.T).indices[:, 0]
    return ((centres**2).sum(axis=0)[:, None] - 2 * (centres.T @ points)).argmin(axis=0)


def means(points, label, centres):
    """Returns the mean of the points of each centre.

    On the host, sums are a product with zeros and ones, as `np.add.at` takes longer.
    """
    k = centres.shape[1]
    if isinstance(points, Array):
        sums = vnp.zeros_like(centres)
        vnp.add.at(sums, (slice(None), label), points)
    else:
        sums = points @ (label[:, None] == np.arange(k)).astype(np.float32)
    return sums / np.bincount(label, minlength=k).astype(np.float32)


def kmeans(points, centres, iterations):
    """Returns the centres after some iterations, and the labels of the points. Each cluster keeps some points.

    All arrays are NumPy's, or all are the device's.
    """
    for _ in range(iterations):
        centres = means(points, nearest(points, centres), centres)
    return centres, nearest(points, centres)


def clouds(n, dimensions, k):
    """Returns points around k centres, as (dimensions, n), and one point of each as a first centre."""
    rng = np.random.default_rng(0)
    true = rng.uniform(-10, 10, (dimensions, k))
    points = true[:, np.arange(n) % k] + rng.normal(size=(dimensions, n))
    return points.astype(np.float32), points[:, :k].astype(np.float32)


def main(points=20_000, dimensions=4, clusters=5, iterations=10):
    x, first = clouds(points, dimensions, clusters)
    result, label = kmeans(vnp.array(x), vnp.array(first), iterations)
    centres, expected = kmeans(x, first, iterations)
    print("points per cluster:", np.bincount(label.numpy(), minlength=clusters))
    print("labels equal numpy's:", np.mean(label.numpy() == expected) > 0.999)
    print("centres equal numpy's:", np.allclose(result.numpy(), centres, atol=1e-3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Finds clusters on the device, and compares them with NumPy's.")
    parser.add_argument("--points", type=int, default=20_000, help="number of points")
    parser.add_argument("--dimensions", type=int, default=4, help="coordinates of a point")
    parser.add_argument("--clusters", type=int, default=5, help="number of clusters")
    parser.add_argument("--iterations", type=int, default=10, help="iterations")
    main(**vars(parser.parse_args()))
