"""Compares small models of other libraries on PyTorch's device with the CPU, and prints a row of a table for each.

    python scripts/torch_models.py [NAME or LIBRARY ...]

Models have random weights and some layers. A step of training, eager and by torch.compile, has the loss and the
gradients of one in float64 on the CPU, to a multiple of the model's rounding. That is the CPU's own in float32, or what
one rounding after each layer makes, if that is more. Models that generate are compared by five tokens, with a cache of
keys and without, and programs that train by their losses in ten steps. Libraries that are not installed are left out.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch_trainers import TRAINERS, import_torchvision

import vkcompute.torch  # noqa: F401

N_ROUNDING = 8.0
"""How many times the model's rounding the device's difference may be."""
N_ROUNDED = 4
"""How many steps with rounded layers tell a model's rounding."""
LEAST = 1e-5
"""A relative difference that is allowed where the CPU happens to have none."""
_VOCABULARY = 99
_DECODER = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": _VOCABULARY, "pad_token_id": 0,
}  # fmt: skip
_ENCODER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_IMAGES = {"image_size": 16, "patch_size": 4}
_UNET = {
    "sample_size": 8, "block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8,
}  # fmt: skip


class Model(NamedTuple):
    """A model.

    Attributes:
        library: the package.
        name: of the row; of transformers, its classes' without their endings.
        inputs: what it takes: words separated by blanks.
        make: returns the module.
    """

    library: str
    name: str
    inputs: str
    make: Callable[[], Any]


def transformer(name: str, head: str, inputs: str, settings: dict[str, Any]) -> Model:
    """Returns a model of transformers; the head is the ending of the name of its class."""

    def make() -> Any:
        import_torchvision()
        library = importlib.import_module("transformers")
        return getattr(library, f"{name}{head}")(getattr(library, f"{name}Config")(**settings))

    return Model("transformers", name, inputs, make)


def vision(name: str, **settings: Any) -> Model:
    """Returns a model of torchvision."""
    return Model("torchvision", name, "picture", lambda: getattr(import_torchvision().models, name)(**settings))


def small_convnext() -> Any:
    """Returns a ConvNeXt of torchvision that has two stages of one block."""
    models = import_torchvision().models
    stages = [models.convnext.CNBlockConfig(*sizes) for sizes in ((16, 32, 1), (32, None, 1))]
    return models.ConvNeXt(stages, layer_scale=1.0, num_classes=4)


def small_transformer() -> Any:
    """Returns a VisionTransformer of torchvision of two layers, whose head is not the zeros that it begins with."""
    model = import_torchvision().models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=4)
    torch.nn.init.normal_(model.heads.head.weight)
    return model


def image_model(name: str, **settings: Any) -> Model:
    """Returns a model of timm."""

    def make() -> Any:
        import_torchvision()
        return importlib.import_module("timm").create_model(name, num_classes=4, **settings)

    return Model("timm", name, "picture", make)


def diffusion(name: str, inputs: str, **settings: Any) -> Model:
    """Returns a model of diffusers."""

    def make() -> Any:
        import_torchvision()
        return getattr(importlib.import_module("diffusers"), name)(**settings)

    return Model("diffusers", name, inputs, make)


def graph_model(name: str) -> Model:
    """Returns two layers of PyTorch Geometric."""

    def make() -> Any:
        layers = importlib.import_module("torch_geometric.nn")
        layer = getattr(layers, name)
        if name == "GINConv":
            return _Graph([layer(torch.nn.Linear(6, 8)), layer(torch.nn.Linear(8, 4))], layers.global_mean_pool)
        return _Graph([layer(6, 8), layer(8, 4)], layers.global_mean_pool)

    return Model("torch_geometric", name, "graph", make)


class _Graph(torch.nn.Module):  # type: ignore[misc]
    """Layers that pass messages along the edges of two graphs, and the means of their nodes."""

    def __init__(self, layers: Sequence[torch.nn.Module], pool: Callable[..., Any]) -> None:
        super().__init__()
        self.layers, self.pool = torch.nn.ModuleList(layers), pool

    def forward(self, x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x, edges))
        return self.pool(x, batch)


MODELS = (
    transformer("GPT2", "LMHeadModel", "tokens", {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": _VOCABULARY,
                "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    transformer("Llama", "ForCausalLM", "tokens", _DECODER),
    transformer("Qwen3", "ForCausalLM", "tokens", _DECODER | {"head_dim": 8}),
    transformer("Mistral", "ForCausalLM", "tokens", _DECODER),
    transformer("Mixtral", "ForCausalLM", "tokens", _DECODER | {"num_local_experts": 4}),
    transformer("Phi3", "ForCausalLM", "tokens", _DECODER),
    transformer("Gemma2", "ForCausalLM", "tokens", _DECODER | {"head_dim": 8}),
    transformer("Mamba", "ForCausalLM", "tokens", {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4,
                "vocab_size": _VOCABULARY}),
    transformer("T5", "ForConditionalGeneration", "tokens", {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2,
                "num_heads": 4, "vocab_size": _VOCABULARY, "dropout_rate": 0.0, "decoder_start_token_id": 0}),
    transformer("Bert", "ForSequenceClassification", "tokens mask classes",
                _ENCODER | _UNDROPPED | {"vocab_size": _VOCABULARY}),
    transformer("DistilBert", "ForSequenceClassification", "tokens mask classes", {"dim": 32, "hidden_dim": 64,
                "n_layers": 2, "n_heads": 4, "vocab_size": _VOCABULARY, "dropout": 0.0, "attention_dropout": 0.0,
                "seq_classif_dropout": 0.0}),
    transformer("ViT", "ForImageClassification", "images classes", _ENCODER | _IMAGES),
    transformer("ResNet", "ForImageClassification", "images classes", {"embedding_size": 8, "hidden_sizes": [8, 16],
                "depths": [1, 1]}),
    transformer("CLIP", "Model", "tokens images both", {"projection_dim": 16, "vision_config": _ENCODER | _IMAGES,
                "text_config": _ENCODER | {"vocab_size": _VOCABULARY, "eos_token_id": 98}}),
    transformer("Whisper", "ForConditionalGeneration", "sound", {"d_model": 32, "encoder_layers": 1,
                "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32, "vocab_size": _VOCABULARY, "num_mel_bins": 8, "max_source_positions": 20,
                "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                "decoder_start_token_id": 1}),
    vision("resnet18", num_classes=4),
    vision("mobilenet_v3_small", num_classes=4, dropout=0.0),
    Model("torchvision", "ConvNeXt", "picture", small_convnext),
    Model("torchvision", "VisionTransformer", "picture", small_transformer),
    image_model("resnet18"),
    image_model("mobilenetv3_small_050"),
    image_model("convnext_atto"),
    image_model("vit_tiny_patch16_224", img_size=32, depth=2),
    diffusion("UNet2DModel", "noisy", in_channels=3, out_channels=3,
              down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
              **_UNET),
    diffusion("UNet2DConditionModel", "noisy guided", in_channels=3, out_channels=3, cross_attention_dim=16,
              attention_head_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
              up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **_UNET),
    *map(graph_model, ("GCNConv", "SAGEConv", "GATConv", "GINConv")),
)  # fmt: skip


def given(words: str, like: torch.Tensor) -> dict[str, Any]:
    """Returns the arguments of a model, on the device of a tensor and with its dtype of floats."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, _VOCABULARY - 1, (2, 6), generator=random)
    known = {
        "tokens": {"input_ids": tokens, "labels": tokens},
        "mask": {"attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])},
        "images": {"pixel_values": torch.randn(2, 3, 16, 16, generator=random)},
        "sound": {"input_features": torch.randn(2, 8, 40, generator=random), "labels": tokens},
        "classes": {"labels": torch.tensor([0, 1])},
        "both": {"attention_mask": torch.ones_like(tokens), "return_loss": True, "labels": None},
        "picture": {"x": torch.randn(4, 3, 64, 64, generator=random)[..., :32, :32]},
        "noisy": {"sample": torch.randn(2, 3, 8, 8, generator=random), "timestep": torch.tensor([3, 7])},
        "guided": {"encoder_hidden_states": torch.randn(2, 5, 16, generator=random)},
        "graph": {
            "x": torch.randn(9, 6, generator=random),
            "edges": torch.randint(9, (2, 30), generator=random),
            "batch": torch.tensor([0] * 4 + [1] * 5),
        },
    }
    arguments: dict[str, Any] = {}
    for word in words.split():
        arguments |= known[word]
    return {name: _moved(value, like) for name, value in arguments.items() if value is not None}


def _moved(value: Any, like: torch.Tensor) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(like.device, like.dtype if value.is_floating_point() else value.dtype)


def loss_of(result: Any) -> torch.Tensor:
    """Returns the loss of a result; of a result without one, the mean of the squares of its differences from 1."""
    if getattr(result, "loss", None) is not None:
        return result.loss
    made = result if isinstance(result, torch.Tensor) else result.sample
    return (made - 1).square().mean()


def gradients(
    model: Any, words: str, device: str, dtype: torch.dtype, *, is_compiled: bool = False, is_rounded: bool = False
) -> dict[str, torch.Tensor]:
    """Returns the loss of a step of training and the gradients of the parameters, in float64 on the CPU."""
    made = copy.deepcopy(model).to(device, dtype)
    for layer in made.modules() if is_rounded else ():
        if not any(layer.children()):
            layer.register_forward_hook(rounded)
    arguments = given(words, next(made.parameters()))
    positional = [arguments.pop("x")] if "x" in arguments else []
    loss = loss_of((torch.compile(made) if is_compiled else made)(*positional, **arguments))
    loss.backward()
    named = {name: value.grad for name, value in made.named_parameters() if value.grad is not None}
    return {name: value.detach().cpu().double() for name, value in ({"loss": loss} | named).items()}


def rounded(layer: Any, given: Any, result: Any) -> Any:
    """Returns the result of a layer with relative errors like those of one rounding to float32, drawn at random."""
    if not isinstance(result, torch.Tensor) or result.dtype != torch.float64:
        return result
    return result * (1 + torch.finfo(torch.float32).eps * (torch.rand_like(result) - 0.5))


class Row(NamedTuple):
    """What the table says of a model.

    Attributes:
        eager: what was right in a step of training.
        compiled: the same by torch.compile.
        generate: what it generates.
        falls_back: operators that the host computed.
    """

    eager: str
    compiled: str = ""
    generate: str = ""
    falls_back: str = ""


class Reference(NamedTuple):
    """What the CPU computes.

    Attributes:
        exact: the loss and the gradients in float64.
        rounding: the norms of the differences that rounding to float32 makes.
        least: a relative difference that is allowed where the CPU happens to have none.
    """

    exact: dict[str, torch.Tensor]
    rounding: dict[str, float]
    least: float


def reference(model: Any, words: str) -> Reference:
    """Returns what the CPU computes, in float32 only where it lacks an operator in float64."""
    host = gradients(model, words, "cpu", torch.float32)
    try:
        exact = gradients(model, words, "cpu", torch.float64)
    except RuntimeError:
        return Reference(host, dict.fromkeys(host, 0.0), 10 * LEAST)
    runs = [host] + [gradients(model, words, "cpu", torch.float64, is_rounded=True) for _ in range(N_ROUNDED)]
    rounding = {name: max(float((run[name] - value).norm()) for run in runs) for name, value in exact.items()}
    return Reference(exact, rounding, LEAST)


def require_close(device: dict[str, torch.Tensor], known: Reference) -> None:
    """Raises AssertionError where the device's difference is many times the model's rounding."""
    exact, rounding, least = known
    assert exact.keys() == device.keys(), exact.keys() ^ device.keys()
    size = max(float(value.norm()) for value in exact.values())
    for name, value in exact.items():
        allowed = least * (float(value.norm()) + 1e-3 * size)
        error = float((device[name] - value).norm())
        bound = N_ROUNDING * rounding[name] + allowed
        assert error <= bound, f"{name} differs by {error:.2g}, and rounding makes {rounding[name]:.2g}"


def tokens(model: Any, device: str, *, use_cache: bool) -> list[int]:
    """Returns the most probable continuation of a sequence."""
    made = copy.deepcopy(model).to(device).eval()
    prompt = given("tokens", next(made.parameters()))["input_ids"][:1]
    with torch.no_grad():
        return made.generate(prompt, max_new_tokens=5, do_sample=False, pad_token_id=0, use_cache=use_cache)[0].tolist()  # type: ignore[no-any-return]


def compiled(model: Any, words: str, known: Reference) -> str:
    """Compares a step of a compiled model; returns what was right, and the number of graph breaks."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        device = gradients(model, words, "vk", torch.float32, is_compiled=True)
    require_close(device, known)
    reasons = [str(warning.message) for warning in said if "is not compiled" in str(warning.message)]
    n_breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return reasons[0][:150] if reasons else f"right, {n_breaks} graph breaks" if n_breaks else "right"


def compared(model: Model) -> Row:
    """Compares a model; returns what was right in training, compiled, what it generates, and what falls back."""
    torch.manual_seed(0)
    torch.vk.clear_fallbacks()
    made = model.make().train()
    known = reference(made, model.inputs)
    require_close(gradients(made, model.inputs, "vk", torch.float32), known)
    is_generating = model.library == "transformers" and model.inputs == "tokens"
    for use_cache in (True, False) if is_generating else ():
        assert tokens(made, "vk", use_cache=use_cache) == tokens(made, "cpu", use_cache=use_cache)
    by_compiler = attempted(lambda: compiled(made, model.inputs, known))
    return Row("right", by_compiler, "right" if is_generating else "", ", ".join(torch.vk.fallbacks()) or "nothing")


def attempted(function: Callable[[], str]) -> str:
    """Returns the result of a function, or the first line of its error."""
    try:
        return function()
    except Exception as error:  # the table shows all models
        return first_line(error)


def first_line(error: Exception) -> str:
    """Returns the kind of an error and the start of its text."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:150]}"


def trained(trainer: str) -> Row:
    """Compares the losses of a program that trains, which says `cuda`, with those on the CPU."""
    losses = []
    for device in ("cpu", "cuda"):
        script = Path(__file__).resolve().with_name("torch_trainers.py")
        command = [sys.executable, "-W", "ignore", str(script), trainer, device]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, (done.stderr.strip().splitlines() or ["ended"])[-1]
        losses.append(json.loads(done.stdout.strip().splitlines()[-1]))
    on_host, device_losses = losses[0]["losses"], losses[1]["losses"]
    assert len(on_host) == len(device_losses) > 1
    torch.testing.assert_close(device_losses, on_host, rtol=1e-3, atol=1e-5)
    return Row("right", falls_back=", ".join(losses[1]["host"]) or "nothing")


def rows(names: set[str]) -> list[tuple[str, str, Callable[[], Row]]]:
    """Returns the library, the name and the comparison of the rows whose library is installed."""
    known = [(model.library, model.name, lambda model=model: compared(model)) for model in MODELS]
    known += [(library, name, lambda name=name: trained(name)) for name, (library, _) in TRAINERS.items()]
    unknown = names - {word for library, name, _ in known for word in (library, name)}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(name for _, name, _ in known)}")
    chosen = [row for row in known if not names or names & {*row[:2]}]
    return [row for row in chosen if importlib.util.find_spec(row[0])]


def main(names: list[str]) -> int:
    """Prints the table; returns 1 if a model differs or raises."""
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}\n")
    print("| library | model | a training step | compiled | generate | falls back |\n|---|---|---|---|---|---|")
    failed = 0
    for library, name, compare in rows({*names}):
        try:
            row = compare()
        except Exception as error:  # the table shows all models
            failed = 1
            row = Row(first_line(error))
        version = importlib.metadata.version(library.replace("_", "-"))
        print(f"| {library} {version} | {name} | {' | '.join(row)} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
