"""Fills every element of a tensor with one value, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vkcompute.runtime.transfer import copy_region

if TYPE_CHECKING:
    from vkcompute.runtime.scheduler import Scheduler
    from vkcompute.runtime.tensor import Tensor


def fill(scheduler: Scheduler, tensor: Tensor, element: bytes) -> None:
    """Writes the bytes of one element into every element.

    Elements of up to 4 bytes are vkCmdFillBuffer's words; of 8, the first one is written and then doubled by copies.
    Views that do not consist of whole words are written from the host.
    """
    buffer, start, stop = tensor.range
    if not tensor.contiguous or start % 4 or (stop % 4 and stop != buffer.used_bytes):
        tensor.write(np.frombuffer(element, tensor.dtype)[0])
        return
    stop += -stop % 4
    if len(element) <= 4 or element[:4] == element[4:]:
        scheduler.fill((buffer, start, stop), int.from_bytes((element * 4)[:4], "little"))
        return
    scheduler.fill((buffer, start, start + 4), int.from_bytes(element[:4], "little"))
    scheduler.fill((buffer, start + 4, start + 8), int.from_bytes(element[4:], "little"))
    done = 8
    while done < stop - start:
        nbytes = min(done, stop - start - done)
        region = copy_region(buffer, start, buffer, start + done, nbytes)
        source, target = (buffer, start, start + nbytes), (buffer, start + done, start + done + nbytes)
        scheduler.copy(region, 1, source, target)
        done += nbytes
