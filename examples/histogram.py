"""A histogram: each workgroup counts in shared memory, and adds its counts to the result.

python examples/histogram.py
"""

import numpy as np

import vkcompute as vc

BINS, GROUP = 64, 256


@vc.kernel
def histogram(x, counts):
    own = vc.shared(BINS, vc.uint32)  # this workgroup's counts, uninitialized
    i, local = vc.global_id(0), vc.local_id(0)
    if local < BINS:
        own[local] = 0
    vc.barrier()  # must be reached by all invocations, so it is in no branch
    if i < x.size:
        vc.atomic.add(own, x[i], 1)
    vc.barrier()
    if local < BINS:
        vc.atomic.add(counts, local, own[local])


def main(n=1_000_000):
    data = np.random.default_rng(0).binomial(BINS - 1, 0.5, n).astype(np.int32)
    with vc.Runtime() as gpu:
        counts = gpu.zeros(BINS, np.uint32)
        histogram[(n + GROUP - 1) // GROUP, GROUP](gpu.array(data), counts)
        result = counts.numpy()
    print("equal to numpy:", np.array_equal(result, np.bincount(data, minlength=BINS)))
    heights = result * 12 // result.max()
    for level in range(12, 0, -1):
        print("".join("#" if height >= level else " " for height in heights).rstrip())


if __name__ == "__main__":
    main()
