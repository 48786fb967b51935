"""Sums of a step in array code: the cross-entropy of two classes or of several, and its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import vkcompute.numpy as vnp
from vkcompute.pipelines.logistic.settings import Floats
from vkcompute.pipelines.logistic.table import own_rows
from vkcompute.runtime.graphs.graph import Graph
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

_MAX_PIECE_NBYTES = 1 << 28  # of a piece of the table: a step has temporaries of its size


Sums = tuple[Array, ...]
"""The loss, a number, and its derivatives by intercepts, (k,), and weights, (k, n_features)."""
SumsOf = Callable[[Array, Array, Array, Array], Sums]
"""A function of weights, (k, n_features), intercepts, (k, 1), rows, (n_rows, n_features), and targets, (n, n_rows)."""


class ArrayShard:
    """A device's rows of the table, in pieces that it binds, and the sums over them.

    Args:
        X: shape (n_rows, n_features), finite as float32.
        targets: shape (n_rows, n), float32, of which `sums_of` gets columns.
        rows: those of this device.
        n_classes: rows of the weights: the number of classes, or 1 for two classes.
        sums_of: computes the sums.
        owner: closes the arrays and graphs.
    """

    def __init__(
        self,
        runtime: Runtime,
        X: npt.NDArray[np.generic],
        targets: Floats,
        rows: range,
        n_classes: int,
        sums_of: SumsOf,
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
        self._sums_of = sums_of
        self._graph: Graph | None = None
        self._owner, self._launched = owner, list[Sums]()

    def start(self, weights: Floats, intercept: Any, batch: npt.NDArray[np.uint32] | None) -> bool:
        """Launches the sums over the rows, or over those in the batch. Returns False if the batch has none.

        Args:
            weights: shape (n_classes, n_features), or (n_features,) for two classes.
            intercept: shape (n_classes,), or a number.
        """
        self._weights.write(weights.reshape(self._weights.shape))
        self._intercept.write(np.asarray(intercept, np.float32).reshape(self._intercept.shape))
        if batch is None:
            if self._graph is None:
                self._record()
            else:
                self._graph.submit()
        else:
            self._launched = [sums for piece in self._pieces if (sums := self._of_batch(*piece, batch))]
        self._runtime.flush()
        return bool(self._launched)

    def sums(self) -> npt.NDArray[np.float64]:
        """Waits for the sums: the loss, and its derivatives by each intercept and each weight."""
        partial_sums = [np.concatenate([x.numpy().reshape(-1) for x in sums]) for sums in self._launched]
        total: npt.NDArray[np.float64] = np.sum(partial_sums, 0, np.float64)
        return total

    def _record(self) -> None:
        """Launches the sums over all rows, and records them for the next steps."""
        keep = self._owner.enter_context
        self._launched = [tuple([keep(x.copy()) for x in self._sums(*piece[1:])]) for piece in self._pieces]
        with self._runtime.record() as graph:
            for (_, data, targets), kept in zip(self._pieces, self._launched, strict=True):
                for target, x in zip(kept, self._sums(data, targets), strict=True):
                    target[...] = x
        self._graph = self._owner.enter_context(closing(graph))

    def _of_batch(self, part: slice, data: Array, targets: Array, batch: npt.NDArray[np.uint32]) -> Sums:
        own = own_rows(batch, part.start, part.stop)
        if not len(own):
            return ()
        order = self._runtime.array(own.astype(np.int32))
        return self._sums(vnp.take(data, order, axis=0), vnp.take(targets, order, axis=1))

    def _sums(self, data: Array, targets: Array) -> Sums:
        return self._sums_of(self._weights, self._intercept, data, targets)


def multinomial_sums(runtime: Runtime, n_classes: int, owner: ExitStack) -> SumsOf:
    """Returns a function of the sums for several classes; its targets are the class of each row, and its weight."""
    numbers = np.arange(n_classes, dtype=np.float32)[:, np.newaxis]
    return partial(_multinomial_sums, owner.enter_context(runtime.array(numbers)))


def _multinomial_sums(classes: Array, weights: Array, intercept: Array, data: Array, targets: Array) -> Sums:
    """Returns the sums for the classes with these numbers, (k, 1).

    Bishop, Pattern Recognition and Machine Learning, section 4.3.4: the derivative by z is softmax(z) - target.
    """
    codes, weight = targets[0], targets[1]
    z: Any = vnp.matmul(weights, data.T)
    z = z + intercept
    z = z - vnp.max(z, axis=0, keepdims=True)
    total = vnp.sum(vnp.exp(z), axis=0, keepdims=True)
    log_probability = z - vnp.log(total)
    is_class = classes == codes
    residual = (vnp.exp(log_probability) - is_class) * weight
    loss = -vnp.sum(vnp.where(is_class, log_probability * weight, vnp.float32(0)))
    return loss, vnp.sum(residual, axis=1), vnp.matmul(residual, data)


def binary_sums(weights: Array, intercept: Array, data: Array, targets: Array) -> Sums:
    """Returns the sums for two classes; `targets` is the weight of each row, negative for the first class.

    For the label s, the loss is log(1 + exp(-s z)), here without overflow.
    """
    z: Any = vnp.matmul(weights, data.T)
    margin = (z + intercept) * vnp.sign(targets)
    loss = vnp.sum((vnp.log1p(vnp.exp(-abs(margin))) + vnp.maximum(-margin, 0)) * abs(targets))
    slope: Any = -targets / (1 + vnp.exp(vnp.minimum(margin, 80)))
    return loss, vnp.sum(slope, axis=1), vnp.matmul(slope, data)
