"""Trains a small model for ten steps by another library's loop, and prints the losses as JSON.

    python scripts/torch_trainers.py Trainer cuda

The programs say `cuda`, which is PyTorch's device `vk` here, or `cpu`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

N_STEPS = 10


def import_torchvision() -> Any:
    """Imports torchvision, if it is there, before a library that would.

    Wheels of torchvision whose operators want CUDA's libraries are imported without these: models use none of them.
    """
    import torch

    if not importlib.util.find_spec("torchvision"):
        return None
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision")


def by_transformers(device: str) -> list[float]:
    """Trains a GPT-2 by transformers' Trainer."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=99, **dropouts))
    rows = torch.randint(3, 99, (40, 8))
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=N_STEPS, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        use_cpu=device == "cpu", save_strategy="no", disable_tqdm=True, learning_rate=1e-2,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
    assert trainer.args.device.type == device, trainer.args.device
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def by_lightning(device: str) -> list[float]:
    """Trains a classifier by Lightning's Trainer."""
    import lightning
    import torch

    losses = []

    class Classifier(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

        def training_step(self, batch: Any, _: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
            assert batch[0].device.type == device, batch[0].device
            losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(4, (80,)))
    trainer = lightning.Trainer(
        max_steps=N_STEPS, accelerator="cpu" if device == "cpu" else "gpu", devices=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tempfile.mkdtemp(),
    )  # fmt: skip
    trainer.fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=8))
    return losses


def by_accelerate(device: str) -> list[float]:
    """Trains a classifier by a loop of accelerate's kind, with clipped gradients."""
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=device == "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(4, (80,)))
    batches = torch.utils.data.DataLoader(data, batch_size=80 // N_STEPS)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    assert accelerator.device.type == device, accelerator.device
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    return losses


TRAINERS: dict[str, tuple[str, Callable[[str], list[float]]]] = {
    "Trainer": ("transformers", by_transformers),
    "Lightning's Trainer": ("lightning", by_lightning),
    "Accelerator": ("accelerate", by_accelerate),
}
"""The library and the function of a program, by its name in the table."""


def main(name: str, device: str) -> None:
    """Runs a program on a device."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VKCOMPUTE_TORCH_FALLBACK", "silent")
    import torch

    import vkcompute.torch

    if device == "cuda":
        import vkcompute.torch.as_cuda  # noqa: F401
    import_torchvision()
    torch.manual_seed(0)
    losses = TRAINERS[name][1](device)
    print(json.dumps({"losses": losses, "host": sorted(torch.vk.fallbacks())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
