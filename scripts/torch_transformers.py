"""Compares small models of Hugging Face's transformers on PyTorch's device with the CPU, and prints a row for each.

    python scripts/torch_transformers.py [NAME ...]

A model has random weights of a configuration of some layers. Compared are the loss and the gradients of all parameters;
for models that generate, also five tokens. Needs torch and transformers.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers

import vkcompute.torch  # noqa: F401

_VOCABULARY = 99
_DECODER = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": _VOCABULARY, "pad_token_id": 0,
}  # fmt: skip
_ENCODER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_IMAGES = {"image_size": 16, "patch_size": 4}


class Model(NamedTuple):
    """A model.

    Attributes:
        name: of its classes, without the ending of the configuration's.
        head: the ending of the name of its class.
        inputs: what it takes: words separated by blanks.
        settings: of its configuration.
    """

    name: str
    head: str
    inputs: str
    settings: dict[str, Any]


MODELS = (
    Model("GPT2", "LMHeadModel", "tokens", {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": _VOCABULARY,
          "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    Model("Llama", "ForCausalLM", "tokens", _DECODER),
    Model("Qwen3", "ForCausalLM", "tokens", _DECODER | {"head_dim": 8}),
    Model("Mistral", "ForCausalLM", "tokens", _DECODER),
    Model("Mixtral", "ForCausalLM", "tokens", _DECODER | {"num_local_experts": 4}),
    Model("Phi3", "ForCausalLM", "tokens", _DECODER),
    Model("Gemma2", "ForCausalLM", "tokens", _DECODER | {"head_dim": 8}),
    Model("Mamba", "ForCausalLM", "tokens", {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4,
          "vocab_size": _VOCABULARY}),
    Model("T5", "ForConditionalGeneration", "tokens", {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2,
          "num_heads": 4, "vocab_size": _VOCABULARY, "dropout_rate": 0.0, "decoder_start_token_id": 0}),
    Model("Bert", "ForSequenceClassification", "tokens mask classes",
          _ENCODER | _UNDROPPED | {"vocab_size": _VOCABULARY}),
    Model("DistilBert", "ForSequenceClassification", "tokens mask classes", {"dim": 32, "hidden_dim": 64, "n_layers": 2,
          "n_heads": 4, "vocab_size": _VOCABULARY, "dropout": 0.0, "attention_dropout": 0.0,
          "seq_classif_dropout": 0.0}),
    Model("ViT", "ForImageClassification", "images classes", _ENCODER | _IMAGES),
    Model("ResNet", "ForImageClassification", "images classes", {"embedding_size": 8, "hidden_sizes": [8, 16],
          "depths": [1, 1]}),
    Model("CLIP", "Model", "tokens images both", {"projection_dim": 16, "vision_config": _ENCODER | _IMAGES,
          "text_config": _ENCODER | {"vocab_size": _VOCABULARY, "eos_token_id": 98}}),
    Model("Whisper", "ForConditionalGeneration", "sound", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
          "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
          "vocab_size": _VOCABULARY, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20,
          "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}),
)  # fmt: skip


def given(words: str, device: str) -> dict[str, Any]:
    """Returns the arguments of a model, with tensors on a device."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, _VOCABULARY - 1, (2, 6), generator=random)
    known = {
        "tokens": {"input_ids": tokens, "labels": tokens},
        "mask": {"attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])},
        "images": {"pixel_values": torch.randn(2, 3, 16, 16, generator=random)},
        "sound": {"input_features": torch.randn(2, 8, 40, generator=random), "labels": tokens},
        "classes": {"labels": torch.tensor([0, 1])},
        "both": {"attention_mask": torch.ones_like(tokens), "return_loss": True, "labels": None},
    }
    arguments: dict[str, Any] = {}
    for word in words.split():
        arguments |= known[word]
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
        if value is not None
    }


def gradients(model: Any, words: str, device: str) -> dict[str, Any]:
    """Returns the loss of a step of training and the gradients of the parameters."""
    model.to(device)
    model.zero_grad()
    loss = model(**given(words, device)).loss
    loss.backward()
    named = {
        name: value.grad.to("cpu", copy=True) for name, value in model.named_parameters() if value.grad is not None
    }
    return {"loss": loss.detach().cpu()} | named


def tokens(model: Any, device: str) -> list[int]:
    """Returns the most probable continuation of a sequence."""
    prompt = given("tokens", device)["input_ids"][:1]
    with torch.no_grad():
        made = model.to(device).eval().generate(prompt, max_new_tokens=5, do_sample=False, pad_token_id=0)
    return made[0].tolist()  # type: ignore[no-any-return]


def row(model: Model) -> str:
    """Compares a model, and returns its row of the table."""
    torch.manual_seed(0)
    torch.vk.clear_fallbacks()
    configuration = getattr(transformers, f"{model.name}Config")(**model.settings)
    made = getattr(transformers, f"{model.name}{model.head}")(configuration)
    expected, results = (gradients(made, model.inputs, device) for device in ("cpu", "vk"))
    assert expected.keys() == results.keys()
    for name, value in expected.items():
        torch.testing.assert_close(results[name], value, rtol=2e-3, atol=2e-4, msg=lambda text, name=name: name + text)
    is_generating = model.inputs == "tokens"
    if is_generating:
        assert tokens(made, "vk") == tokens(made, "cpu")
    on_host = ", ".join(torch.vk.fallbacks()) or "nothing"
    return f"| {model.name} | right | {'right' if is_generating else ''} | {on_host} |"


def main(names: list[str]) -> int:
    """Prints the table; returns 1 if a model differs or raises."""
    warnings.simplefilter("ignore")
    unknown = {*names} - {model.name for model in MODELS}
    if unknown:
        print(f"unknown models: {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MODELS)}")
        return 2
    print(f"transformers {transformers.__version__}, torch {torch.__version__}\n")
    print("| model | loss and gradients | generate | falls back |\n|---|---|---|---|")
    failed = 0
    for model in MODELS:
        if names and model.name not in names:
            continue
        try:
            print(row(model), flush=True)
        except Exception as error:  # the table shows all models
            failed = 1
            print(f"| {model.name} | {type(error).__name__}: {str(error).splitlines()[0][:80]} | | |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
