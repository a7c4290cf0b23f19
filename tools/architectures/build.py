"""A tiny model of an architecture with random weights, and the inputs that it runs on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
import transformers
from torch import nn

from .catalogue import Architecture
from .inputs import EXPORTED, KINDS, OTHERS, Kind, Settings, Sizes, wanted
from .shrink import SHRINKS, Shrink, shrunk

SEED, MOST_PARAMETERS = 20, 30_000_000


class NotMade(Exception):
    """No small configuration of an architecture could be made or run; the first reason."""


class Outputs(nn.Module):
    """A model of ``transformers`` as a function of arrays to a tuple of arrays: every array of floats it returns."""

    def __init__(self, inner: nn.Module, names: list[str]):
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The arrays of floats among the model's outputs, those of parts included."""
        return tuple(floats(self.inner(**dict(zip(self.names, arrays, strict=True)))))


def floats(value: object) -> list[torch.Tensor]:
    """The tensors of floats inside of nested outputs, in order; caches of keys and values left out."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = tuple(value.values())
    return [t for part in value for t in floats(part)] if isinstance(value, (list, tuple)) else []


@dataclass(frozen=True)
class Tiny:
    """A model that runs: its inputs' kinds by name, and the names of dimensions that may be another size."""

    model: Outputs
    kinds: dict[str, Kind]
    settings: Settings
    free: frozenset[str]

    def arrays(self, sizes: Sizes) -> tuple[torch.Tensor, ...]:
        """Inputs of the given sizes (of the exported ones where the architecture fixes them); the same each time."""
        torch.manual_seed(SEED)
        return made(self.kinds, self.settings, {k: sizes[k] if k in self.free else v for k, v in EXPORTED.items()})


def made(kinds: dict[str, Kind], settings: Settings, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """One array for each of *kinds*."""
    return tuple(kind.make(settings, sizes) for kind in kinds.values())


def tiny(architecture: Architecture) -> Tiny:
    """The first small model of *architecture* that can be made and run.

    Raises:
        NotMade: if there is none, with the first reason.
    """
    reasons: list[str] = []
    for by in SHRINKS:
        try:
            model, config = build(architecture, by)
        except Exception as err:  # whatever a constructor says to sizes that do not fit
            reasons.append(f"configuration: {type(err).__name__}: {err}")
            continue
        settings = Settings(config)
        for names in wanted(model):
            for kinds in itertools.product(*(KINDS[n] for n in names)):
                by_name = dict(zip(names, kinds, strict=True))
                try:
                    torch.manual_seed(SEED)
                    outputs = runs(Outputs(model, names), by_name, settings, EXPORTED)
                except Exception as err:
                    reasons.append(f"inputs {', '.join(names)}: {type(err).__name__}: {err}")
                    continue
                if outputs and all(bool(t.isfinite().any()) for t in outputs):
                    whole = Outputs(model, names).eval()
                    return Tiny(whole, by_name, settings, free_dimensions(whole, by_name, settings))
                reasons.append("its outputs are not numbers" if outputs else "it has no outputs of floats")
    raise NotMade(" ".join((reasons or ["no inputs are known for its parameters"])[0].split())[:300])


def build(architecture: Architecture, by: Shrink) -> tuple[nn.Module, object]:
    """The model with random weights, ready for inference, and its configuration.

    Raises:
        ValueError: if it is too large.
    """
    model_class = getattr(transformers, architecture.model)
    config_class = model_class.config_class
    config = config_class(**shrunk(config_class().to_dict(), by))
    for part in Settings(config).parts:
        for name in ("use_cache", "output_attentions", "output_hidden_states"):
            if hasattr(part, name):
                setattr(part, name, False)
    config._experts_implementation = "batched_mm"  # the other ways choose loops by what the data say
    torch.manual_seed(SEED)
    with torch.device("meta"):
        count = sum(p.numel() for p in model_class(config).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count} parameters")
    torch.manual_seed(SEED)
    model = model_class(config).float().eval()
    shake(model)
    return model, config


def shake(model: nn.Module) -> None:
    """Give parameters and statistics that all start equal (norms' scales, biases) values of their own."""
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor += 0.1 * torch.randn_like(tensor)
        for name, tensor in model.named_buffers():
            if name.endswith("running_mean"):
                tensor.uniform_(-0.2, 0.2)
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)


def runs(model: nn.Module, kinds: dict[str, Kind], settings: Settings, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """What *model* gives for inputs of *sizes*."""
    with torch.no_grad():
        return model(*made(kinds, settings, sizes))


def free_dimensions(model: nn.Module, kinds: dict[str, Kind], settings: Settings) -> frozenset[str]:
    """The names of dimensions that PyTorch's own model runs with at other sizes too."""
    found = set()
    for name in {dim for kind in kinds.values() for dim in kind.dims if dim}:
        try:
            for sizes in OTHERS:
                runs(model, kinds, settings, {**EXPORTED, name: sizes[name]})
            found.add(name)
        except Exception:
            continue
    return frozenset(found)
