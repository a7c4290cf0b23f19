"""Inputs of a model, by the names of its ``forward``'s parameters, and which of their sizes have names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Sizes = dict[str, int]
EXPORTED: Sizes = {"batch": 2, "sequence": 7, "target": 5, "samples": 4000, "frames": 64, "height": 64, "width": 64}
OTHERS: list[Sizes] = [
    {"batch": 3, "sequence": 11, "target": 4, "samples": 5200, "frames": 96, "height": 96, "width": 64},
    {"batch": 1, "sequence": 5, "target": 9, "samples": 3601, "frames": 128, "height": 128, "width": 96},
]
BINS = (
    "num_mel_bins",
    "input_feat_per_channel",
    "feature_projection_input_dim",
    "mel_bins",
    "input_dim",
    "feature_size",
)
OPTIONAL = ("attention_mask", "decoder_input_ids", "noise")  # without noise a model draws it, and runs differ
MODALITIES = ("pixel_values", "input_features", "input_values", "pixel_values_videos")


@dataclass(frozen=True)
class Kind:
    """One input: an array of given sizes, and the names of its dimensions (None where the architecture fixes it)."""

    dims: tuple[str | None, ...]
    make: Callable[[Settings, Sizes], torch.Tensor]


class Settings:
    """Attributes of a configuration, looked for in its parts where it has none itself."""

    def __init__(self, config: object):
        self.parts = [config]
        for part in self.parts:
            self.parts += [v for v in vars(part).values() if hasattr(v, "to_dict") and v not in self.parts]

    def number(self, *names: str, otherwise: int) -> int:
        """The first number that one of *names* has."""
        for name in names:
            for part in self.parts:
                value = getattr(part, name, None)
                value = value[0] if isinstance(value, (list, tuple)) and value else value
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return otherwise


def tokens(dim: str) -> Kind:
    """Numbers of tokens: ordinary ones, below every special one."""

    def make(settings: Settings, sizes: Sizes) -> torch.Tensor:
        high = min(settings.number("vocab_size", otherwise=64), 200)
        return torch.randint(min(4, high - 1), high, (sizes["batch"], sizes[dim]))

    return Kind(("batch", dim), make)


def mask(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Ones; the last token of a batch's first row is padding."""
    ones = torch.ones(sizes["batch"], sizes["sequence"], dtype=torch.int64)
    if sizes["batch"] > 1:
        ones[0, -1] = 0
    return ones


def side(settings: Settings, sizes: Sizes, dim: str) -> int:
    """An image's side: what the configuration says at the exported sizes, more by as much as *sizes* has more."""
    return settings.number("image_size", "img_size", otherwise=EXPORTED[dim]) + sizes[dim] - EXPORTED[dim]


def image(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Images: f32[batch, channels, height, width]."""
    channels = settings.number("num_channels", "in_channels", "in_chans", otherwise=3)
    return torch.randn(sizes["batch"], channels, side(settings, sizes, "height"), side(settings, sizes, "width"))


def video(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Frames: f32[batch, frames, channels, height, width]."""
    count = settings.number("num_frames", "frames_per_clip", otherwise=4)
    one = image(settings, sizes)
    return torch.randn(one.shape[0], count, *one.shape[1:])


def features(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Spectra with time in the middle: f32[batch, frames, bins]."""
    bins = settings.number(*BINS, otherwise=80)
    return torch.randn(sizes["batch"], sizes["frames"], bins)


def features_last(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Spectra with time at the end, as long as a table of positions asks for: f32[batch, bins, frames]."""
    positions = settings.number("max_source_positions", otherwise=0)
    bins = settings.number("num_mel_bins", otherwise=80)
    return torch.randn(sizes["batch"], bins, 2 * positions if positions else sizes["frames"])


def noise(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """By what patches of an image are masked: f32[batch, patches]."""
    image_side = side(settings, sizes, "height")
    return torch.rand(sizes["batch"], (image_side // settings.number("patch_size", otherwise=16)) ** 2)


def series(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Time series: f32[batch, context, channels]."""
    length = settings.number("context_length", otherwise=32)
    return torch.randn(sizes["batch"], length, settings.number("num_input_channels", "input_size", otherwise=1))


def fixed_tokens(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Tokens of one length, for models that divide it into blocks."""
    return tokens("sequence").make(settings, {**sizes, "sequence": 64})


def hidden(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """States between layers: f32[batch, sequence, width]."""
    width = settings.number("hidden_size", "d_model", otherwise=32)
    return torch.randn(sizes["batch"], sizes["sequence"], width)


def wave(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """Sound: f32[batch, samples]."""
    return torch.randn(sizes["batch"], sizes["samples"])


def spectrogram(settings: Settings, sizes: Sizes) -> torch.Tensor:
    """A picture of sound: f32[batch, max_length, bins]."""
    return torch.randn(sizes["batch"], settings.number("max_length", otherwise=64), 128)


IMAGE = ("batch", None, "height", "width")
FRAMES = ("batch", None, None, "height", "width")
KINDS: dict[str, list[Kind]] = {
    "input_ids": [tokens("sequence"), Kind(("batch", None), fixed_tokens)],
    "decoder_input_ids": [tokens("target")],
    "attention_mask": [Kind(("batch", "sequence"), mask)],
    "pixel_values": [
        Kind(IMAGE, image),
        Kind(FRAMES, video),
        Kind(FRAMES, lambda settings, sizes: image(settings, sizes)[:, None].repeat(1, 2, 1, 1, 1)),
    ],
    "pixel_values_videos": [Kind(FRAMES, video)],
    "input_values": [
        Kind(("batch", "samples"), wave),
        Kind(("batch", None, "samples"), lambda settings, sizes: wave(settings, sizes)[:, None]),
        Kind(("batch", None, None), spectrogram),
    ],
    "input_features": [Kind(("batch", "frames", None), features), Kind(("batch", None, "frames"), features_last)],
    "past_values": [
        Kind(("batch", None, None), series),
        Kind(("batch", None), lambda settings, sizes: series(settings, sizes)[..., 0]),
    ],
    "noise": [Kind(("batch", None), noise)],
    "hidden_states": [Kind(("batch", "sequence", None), hidden)],
    "latents": [Kind(("batch", "sequence", None), hidden)],
}


def wanted(model: nn.Module) -> list[list[str]]:
    """The sets of inputs to try, the fullest first: every modality, then what the model cannot go without."""
    parameters = inspect.signature(model.forward).parameters
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind not in variadic]
    main = model.main_input_name if isinstance(model.main_input_name, str) else model.main_input_name[0]
    needed += [main] if main not in needed else []
    if "input_ids" in parameters and needed == [main] and main in MODALITIES:
        needed = ["input_ids", *needed]
    optional = [n for n in OPTIONAL if n in parameters and n not in needed]
    if "input_ids" not in needed:
        optional = [n for n in optional if n != "attention_mask"]
    full = needed + [n for n in MODALITIES if n in parameters and n not in needed] + optional
    sets = [full, needed + optional, needed, [main, *optional], [main]]
    return [s for i, s in enumerate(sets) if s not in sets[:i] and all(n in KINDS for n in s)]
