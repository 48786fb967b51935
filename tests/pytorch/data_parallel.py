"""A process of two that train a model: `python data_parallel.py RANK FILE`. The second one kills itself at the end."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4))


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def sharded_modules() -> nn.Module:
    """A model whose layers have their parameters in halves, as DTensors."""
    net = model().to("vk")
    mesh = init_device_mesh("vk", (2,))
    for layer in [layer for layer in net if list(layer.parameters())]:
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def check_training(rank: int) -> None:
    """Trains on every other row, whole and sharded, and compares with a training on all rows."""
    torch.manual_seed(1)
    x, y = torch.randn(8, 6), torch.randint(0, 4, (8,))
    whole = model().to("vk")
    train(whole, x.to("vk"), y.to("vk"))
    replicated = nn.parallel.DistributedDataParallel(model().to("vk"))
    flat = FullyShardedDataParallel(model().to("vk"), device_id=torch.device("vk", 0), use_orig_params=True)
    halves = sharded_modules()
    for net in replicated, flat, halves:
        train(net, x[rank::2].to("vk"), y[rank::2].to("vk"))
    with FullyShardedDataParallel.summon_full_params(flat):
        together = [value.detach().clone() for value in flat.parameters()]
    results = [[*replicated.parameters()], together, [value.full_tensor() for value in halves.parameters()]]
    for values in results:
        torch.testing.assert_close(values, [*whole.parameters()], rtol=1e-4, atol=1e-5)
    sizes = [value.to_local().numel() for value in halves.parameters()]
    assert sum(sizes) < sum(value.numel() for value in whole.parameters())


def check_operations(rank: int) -> None:
    rows = [torch.empty(2, device="vk") for _ in range(2)]
    dist.all_gather(rows, torch.full((2,), float(rank), device="vk"))
    assert [row.tolist() for row in rows] == [[0.0, 0.0], [1.0, 1.0]]
    total, part = torch.full((4,), 1.0 + rank, device="vk"), torch.empty(2, device="vk")
    dist.reduce_scatter_tensor(part, total)
    assert part.tolist() == [3.0, 3.0]
    received = torch.arange(3.0, device="vk") * (1 - rank)
    if rank:
        dist.recv(received, 0)
    else:
        dist.send(received, 1)
    assert received.tolist() == [0.0, 1.0, 2.0]
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    assert total.tolist() == [3.0] * 4
    halves = torch.empty(4, device="vk")
    dist.all_to_all_single(halves, total * (1 + rank))
    assert halves.tolist() == [3.0, 3.0, 6.0, 6.0]
    dist.broadcast(total.mul_(rank), 1)
    assert total.tolist() == [3.0] * 4


def main() -> None:
    rank = int(sys.argv[1])
    dist.init_process_group(
        "gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2, timeout=timedelta(seconds=120)
    )
    check_training(rank)
    check_operations(rank)
    print("same", flush=True)
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(3):
        dist.all_reduce(torch.ones(2, device="vk"))


if __name__ == "__main__":
    main()
