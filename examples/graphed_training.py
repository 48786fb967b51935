"""Training of a small network by hand, forward and backward, eager and by `vc.graph`: results and times per step.

python examples/graphed_training.py [number of steps]
"""

import itertools
import sys
import time

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn

WIDTHS = 64, 64, 64, 64, 10


class Network:
    """Layers with ReLU between them, trained by gradient descent with momentum."""

    def __init__(self, gpu, seed=0) -> None:
        rng = np.random.default_rng(seed)
        shapes = [shape for a, b in itertools.pairwise(WIDTHS) for shape in ((a, b), (b,))]
        self.parameters = [gpu.array(rng.normal(0, 0.1, shape).astype(np.float32)) for shape in shapes]
        self.momenta = [gpu.zeros(shape) for shape in shapes]

    def step(self, x, target):
        """Updates the parameters in place; returns the loss before."""
        weights, shifts = self.parameters[::2], self.parameters[1::2]
        values = [x]
        for w, b in zip(weights[:-1], shifts[:-1], strict=True):
            values.append(vnp.maximum(values[-1] @ w + b, 0))
        logits = values[-1] @ weights[-1] + shifts[-1]
        loss = -(target * nn.log_softmax(logits)).sum(axis=1).mean()
        error = (nn.softmax(logits) - target) / len(x)
        gradients = []
        for w, value in zip(reversed(weights), reversed(values), strict=True):
            gradients += [error.sum(axis=0), value.T @ error]
            error = (error @ w.T) * (value > 0)
        state = zip(reversed(self.parameters), reversed(self.momenta), gradients, strict=True)
        for parameter, momentum, gradient in state:
            momentum[...] = 0.9 * momentum + gradient
            parameter -= 0.05 * momentum
        return loss

    graphed_step = vc.graph(step)


def main(n_steps=200, size=64):
    rng = np.random.default_rng(1)
    with vc.Runtime() as gpu:
        inputs = [gpu.array(rng.normal(size=(size, WIDTHS[0])).astype(np.float32)) for _ in range(8)]
        targets = [gpu.array(np.eye(10, dtype=np.float32)[x.numpy()[:, :10].argmax(1)]) for x in inputs]
        losses = {}
        for name in ("step", "graphed_step"):
            network = Network(gpu)
            step = getattr(network, name)
            first = [step(x, target) for x, target in zip(inputs, targets, strict=True)]
            gpu.wait()
            start, start_host = time.perf_counter(), time.thread_time()
            for i in range(n_steps):
                loss = step(inputs[i % 8], targets[i % 8])
            host = time.thread_time() - start_host
            gpu.wait()
            losses[name] = [first[0].item(), loss.item()]
            print(
                f"{name}: {1e3 * (time.perf_counter() - start) / n_steps:.2f} ms per step, "
                f"{1e3 * host / n_steps:.2f} of the host"
            )
    print(f"loss {losses['step'][0]:.2f} at first, {losses['step'][1]:.2f} at last")
    print("equal to the bit:", losses["step"] == losses["graphed_step"])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
