"""Write the models, with free sizes too (``--free``): ``python -m benchmarks.models.export_zoo FOLDER [NAME ...]``.

Nine known architectures in their published sizes, batch 1, built by ``transformers`` from their configurations with
seeded random weights and exported by PyTorch (``pip install torch transformers onnxscript onnx``; nothing is
downloaded). Batch norms get random statistics, so that what folds them wrongly gives other numbers. A file takes
14 to 500 MB. A tenth, ``llama``, a decoder of 127 million parameters (no published size), is written when it is named.
With ``--free`` the batch, and of tokens the length, are sizes that are given when the model runs.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from torch import nn

OPSET, SEED, CLASSES = 18, 20, 1000
RESNET18 = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
EFFICIENTNET_B0 = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 224}


@dataclass(frozen=True)
class Architecture:
    """A class of models with its configuration, and the input that it is exported for."""

    model: str
    config: str
    settings: dict[str, object]
    example: Callable[[], torch.Tensor]

    def build(self) -> nn.Module:
        """The model with random weights, ready for inference."""
        config = getattr(transformers, self.config)(**self.settings)
        return getattr(transformers, self.model)(config).eval()


def images(side: int) -> Callable[[], torch.Tensor]:
    """One image of three channels, *side* by *side*."""
    return lambda: torch.randn(1, 3, side, side)


def tokens(count: int) -> Callable[[], torch.Tensor]:
    """One sequence of *count* token numbers."""
    return lambda: torch.randint(0, CLASSES, (1, count))


def classifier(family: str, side: int = 224, **settings: object) -> Architecture:
    """The image classifier of a *family* of ``transformers``."""
    return Architecture(
        f"{family}ForImageClassification", f"{family}Config", {"num_labels": CLASSES, **settings}, images(side)
    )


ZOO = {
    "resnet50": classifier("ResNet"),
    "resnet18": classifier("ResNet", **RESNET18),
    "mobilenetv2": classifier("MobileNetV2"),
    "efficientnetb0": classifier("EfficientNet", **EFFICIENTNET_B0),
    "mobilevit": classifier("MobileViT", side=256),
    "convnext": classifier("ConvNext"),
    "vit": classifier("ViT"),
    "bert": Architecture("BertModel", "BertConfig", {}, tokens(128)),
    "gpt2": Architecture("GPT2LMHeadModel", "GPT2Config", {"use_cache": False}, tokens(64)),
}
LLAMA = {
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "use_cache": False,
}
ARCHITECTURES = {**ZOO, "llama": Architecture("LlamaForCausalLM", "LlamaConfig", LLAMA, tokens(64))}
FREE_AXES = {2: ("batch", "sequence"), 4: ("batch",)}  # of tokens, of images


class OneOutput(nn.Module):
    """A model of ``transformers`` as a function of one tensor to one tensor: logits, or the last hidden state."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first of the model's outputs."""
        return self.inner(x, return_dict=False)[0]


def shake_norms(model: nn.Module) -> None:
    """Give every batch norm the statistics and scales of one that was trained: none zero, none one."""
    ranges = {"running_mean": (-0.2, 0.2), "running_var": (0.5, 1.5), "weight": (0.5, 1.2), "bias": (-0.2, 0.2)}
    with torch.no_grad():
        for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
            for name, (low, high) in ranges.items():
                getattr(norm, name).uniform_(low, high)


def seeded(name: str) -> tuple[nn.Module, torch.Tensor]:
    """An architecture with its input of batch 1; the same numbers each time."""
    torch.manual_seed(SEED)
    model = ARCHITECTURES[name].build()
    shake_norms(model)
    return OneOutput(model).eval(), ARCHITECTURES[name].example()


def export(name: str, folder: Path, free: bool = False) -> Path:
    """Write ``folder/name.onnx`` and return its path; the same numbers each time."""
    model, example = seeded(name)
    path = folder / f"{name}.onnx"
    write(model, example, path, free)
    return path


def write(model: nn.Module, example: torch.Tensor, path: Path, free: bool = False) -> None:
    """Write *model* to *path* for inputs like *example*, or of free sizes."""
    named = dict(enumerate(map(torch.export.Dim, FREE_AXES[example.ndim]))) if free else {}
    if free:  # an exporter takes a size of one for fixed
        example = torch.cat([example, example])
    torch.onnx.export(
        model,
        (example,),
        path,
        input_names=["x"],
        output_names=["out"],
        opset_version=OPSET,
        dynamic_shapes=(named,) if free else None,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def main() -> None:
    """Write the models that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ARCHITECTURES))
    parser.add_argument("--free", action="store_true", help="leave the batch, and the length of tokens, free")
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.names if name not in ARCHITECTURES]
    if unknown:
        parser.error(f"no such architecture: {', '.join(unknown)}; there are {', '.join(ARCHITECTURES)}")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or ZOO:
        path = export(name, options.folder, options.free)
        print(f"{path}: {path.stat().st_size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
