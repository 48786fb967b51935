"""A small GPT of characters by Hugging Face's Trainer: trained on Python's licence, fine-tuned on its Zen, with a plot.

python -m vkcompute.torch examples/pytorch/finetuned_gpt.py [number of steps]
"""

import codecs
import contextlib
import io
import sys
import tempfile

import matplotlib as mpl
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

mpl.use("Agg")
from matplotlib import pyplot as plt

LENGTH = 32


def texts():
    """Returns a long text and a short one that every Python has."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    return str(license), codecs.decode(this.s, "rot13")


def rows(text):
    """Cuts a text into overlapping rows of characters."""
    codes = torch.tensor([min(ord(character), 127) for character in text])
    return [{"input_ids": row, "labels": row} for row in codes.unfold(0, LENGTH, LENGTH // 4)]


def train(model, text, n_steps, learning_rate):
    """Trains a model; returns the losses of the steps."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=n_steps, per_device_train_batch_size=16, learning_rate=learning_rate, warmup_steps=5,
            logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, log_level="error",
        )  # fmt: skip
        trainer = Trainer(model=model, args=arguments, train_dataset=rows(text))
        trainer.remove_callback(PrinterCallback)  # it prints every loss
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def continued(model, prompt):
    """Returns the most probable continuation of a text."""
    codes = torch.tensor([[*prompt.encode()]], device=model.device)
    made = model.generate(
        codes, attention_mask=torch.ones_like(codes), max_new_tokens=24, do_sample=False, pad_token_id=0
    )
    return bytes(made[0].tolist()).decode()


def plot(losses, path):
    """Draws the losses of both trainings, one after the other."""
    figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
    start = 1
    for label, row in losses.items():
        axis.plot(range(start, start + len(row)), row, label=label)
        start += len(row)
    axis.set(xlabel="step", ylabel="loss")
    axis.legend()
    figure.savefig(path, dpi=120)


def main(n_steps=200):
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    long, short = texts()
    losses = {"licence": train(model, long, n_steps, 3e-3)}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tuned = GPT2LMHeadModel.from_pretrained(folder)
    losses["Zen, fine-tuned"] = train(tuned, short, n_steps // 2, 1e-3)
    plot(losses, "finetuned_gpt.png")
    for label, row in losses.items():
        print(f"{label}: loss {row[0]:.2f} to {row[-1]:.2f} on {tuned.device}")
    print(f"continued: {continued(tuned.eval(), 'Beautiful is ')!r}")
    print("wrote finetuned_gpt.png")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
