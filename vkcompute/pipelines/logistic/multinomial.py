"""Sums of a step with several classes, in array code: the softmax cross-entropy and its derivatives."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import numpy.typing as npt

import vkcompute.numpy as vnp
from vkcompute.pipelines.logistic.settings import Floats
from vkcompute.runtime.graphs.graph import Graph
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

_MAX_PIECE_NBYTES = 1 << 28  # of a piece of the table: a step has temporaries of its size


class MultinomialShard:
    """A device's rows of the table, in pieces that it binds, and the sums over them.

    Args:
        X: shape (n_rows, n_features), finite as float32.
        targets: shape (n_rows, 2), float32: the number of each row's class, and its weight.
        rows: those of this device.
        n_classes: number of classes.
        owner: closes the arrays and graphs.
    """

    def __init__(
        self,
        runtime: Runtime,
        X: npt.NDArray[np.generic],
        targets: Floats,
        rows: range,
        n_classes: int,
        owner: ExitStack,
    ) -> None:
        n_features = X.shape[1]
        limit = min(runtime.device.max_binding_bytes, _MAX_PIECE_NBYTES) // (4 * max(n_features, n_classes))
        if limit == 0:
            raise ValueError(f"a row of {n_features} features exceeds the largest binding of {runtime.device}")
        self._runtime, self._rows, keep = runtime, rows, owner.enter_context
        self._pieces: list[tuple[slice, Array, Array]] = []
        for first in range(rows.start, rows.stop, limit):
            part = slice(first, min(first + limit, rows.stop))
            data, columns = X[part].astype(np.float32), np.ascontiguousarray(targets[part].T)
            self._pieces.append((part, keep(runtime.array(data)), keep(runtime.array(columns))))
        self._weights = keep(runtime.empty((n_classes, n_features), np.float32))
        self._intercept = keep(runtime.empty((n_classes, 1), np.float32))
        self._classes = keep(runtime.array(np.arange(n_classes, dtype=np.float32)[:, np.newaxis]))
        self._graph: Graph | None = None
        self._owner, self._found = owner, list[tuple[Array, ...]]()

    def start(self, weights: Floats, intercept: Any, batch: npt.NDArray[np.uint32] | None) -> bool:
        """Launches the sums over the rows, or over those in the batch. Returns False if the batch has none.

        Args:
            weights: shape (n_classes, n_features).
            intercept: shape (n_classes,).
        """
        self._weights.write(weights)
        self._intercept.write(np.asarray(intercept, np.float32)[:, np.newaxis])
        if batch is None:
            if self._graph is None:
                self._record()
            else:
                self._graph.submit()
        else:
            self._found = [sums for piece in self._pieces if (sums := self._of_batch(*piece, batch))]
        self._runtime.flush()
        return bool(self._found)

    def sums(self) -> npt.NDArray[np.float64]:
        """Waits for the sums: the loss, and its derivatives by each intercept and each weight."""
        partial_sums = [np.concatenate([x.numpy().reshape(-1) for x in sums]) for sums in self._found]
        total: npt.NDArray[np.float64] = np.sum(partial_sums, 0, np.float64)
        return total

    def _record(self) -> None:
        """Launches the sums over all rows, and records them for the next steps."""
        keep = self._owner.enter_context
        self._found = [tuple([keep(x.copy()) for x in self._sums(*piece[1:])]) for piece in self._pieces]
        with self._runtime.record() as graph:
            for (_, data, targets), kept in zip(self._pieces, self._found, strict=True):
                for target, x in zip(kept, self._sums(data, targets), strict=True):
                    target[...] = x
        self._graph = self._owner.enter_context(closing(graph))

    def _of_batch(self, part: slice, data: Array, targets: Array, batch: npt.NDArray[np.uint32]) -> tuple[Array, ...]:
        own = batch[(batch >= part.start) & (batch < part.stop)] - np.uint32(part.start)
        if not len(own):
            return ()
        order = self._runtime.array(own.astype(np.int32))
        return self._sums(vnp.take(data, order, axis=0), vnp.take(targets, order, axis=1))

    def _sums(self, data: Array, targets: Array) -> tuple[Array, ...]:
        """Returns the loss, and its derivatives by intercepts and weights, summed over rows with these targets.

        Bishop, Pattern Recognition and Machine Learning, section 4.3.4: the derivative by z is softmax(z) - target.
        """
        codes, weight = targets[0], targets[1]
        z: Any = vnp.matmul(self._weights, data.T)
        z = z + self._intercept
        z = z - vnp.max(z, axis=0, keepdims=True)
        total = vnp.sum(vnp.exp(z), axis=0, keepdims=True)
        log_probability = z - vnp.log(total)
        is_class = self._classes == codes
        residual = (vnp.exp(log_probability) - is_class) * weight
        loss = -vnp.sum(vnp.where(is_class, log_probability * weight, vnp.float32(0)))
        return loss, vnp.sum(residual, axis=1), vnp.matmul(residual, data)
