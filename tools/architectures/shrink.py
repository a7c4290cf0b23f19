"""Small configurations from large ones, by rules over the names and numbers of their attributes.

Widths are divided by one factor, so that their relations hold (``hidden_size = heads * head_dim``); counts of layers
are cut, with one layer of each kind kept; token numbers move into a small vocabulary. No factor suits every
architecture: :data:`SHRINKS` is the order in which they are tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Value = object
VOCABULARY, POSITIONS, EXPERTS, SIDE = 512, 512, 4, 64
LAYERS = re.compile(
    r"(^|_)(hidden_|encoder_|decoder_)?layers?$|^(encoder_|decoder_|resampler_|perceiver_)?depth$|^n_layers?$|^num_blocks$"
)
STAGES = re.compile(r"^(\w+_)?depths$|^stage_num_blocks$|^blocks_per_stage$|^stage_numb_of_layers$|^layer_depths$")
INDEXES = re.compile(r"(indices|indexes|_idx)$")
FEATURE_LAYERS = re.compile(r"(feature|select)_layers?$")
TOKEN = re.compile(r"token_(id|index)s?$|^(pad|bos|eos|boi|eoi|boa|eoa|sep|cls|mask)_(index|idx|id)$|_token_id$")
KEPT = re.compile(
    r"^num_(?!filters|channels$|embeddings)|kernel|stride|patch_size|image_size|window|mel_bins|sampling|rate$|ratio|vocab|heads?$|"
    r"layers?$|depth|index|indices|positions?|bucket|max_distance|theta|n_fft|hop|padding|^n_(group|routed|shared)|chunk|"
    r"^in_chan|_id$|length$|^scale|factor|top_?k|frames|temperature|max_.*embeddings|input_size|resolution|feature_size|"
    r"query_pre_attn|groups|side$|expand|mult$|tdnn|codebook_size|block_size|num_position|tubelet|context|_rate|points"
)
NOT_LAYERS = {
    "num_feat_extract_layers",
    "num_conv_layers",
    "num_residual_layers",
    "max_window_layers",
    "num_fp32_layers",
}
CAPS = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": POSITIONS,
    "n_positions": POSITIONS,
    "num_experts": EXPERTS,
    "num_local_experts": EXPERTS,
    "n_routed_experts": EXPERTS,
    "moe_num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_queries": 20,
    "num_denoising": 4,
}
DROPPED = {"id2label", "label2id", "architectures", "transformers_version", "dtype", "torch_dtype", "_name_or_path"}


@dataclass(frozen=True)
class Shrink:
    """How far a configuration is made smaller.

    Attributes:
        factor: what widths are divided by.
        layers: how many layers stay; 0 keeps them all.
        side: whether images are made small.
    """

    factor: int
    layers: int
    side: bool


SHRINKS = [Shrink(f, n, s) for n, s in ((2, True), (2, False), (4, True), (0, True), (0, False)) for f in (16, 8, 4, 2)]
SHRINKS += [Shrink(1, 2, True), Shrink(1, 0, False)]


def shrunk(settings: dict[str, Value], by: Shrink) -> dict[str, Value]:
    """The attributes *settings* of a configuration, its parts included, made smaller."""
    lengths = [v for k, v in settings.items() if is_layers(k) and isinstance(v, int) and v > by.layers > 0]
    kept = {length: kept_layers(settings, length, by.layers) for length in lengths}
    small = {k: shrunk_value(k, v, by, kept) for k, v in settings.items() if k not in DROPPED}
    return {**small, **filled(small)}


def filled(settings: dict[str, Value]) -> dict[str, Value]:
    """Values for attributes that a default leaves open although the model reads them."""
    found: dict[str, Value] = {k: 2 for k in ("num_experts_per_tok", "num_experts_per_token") if k in settings}
    hidden, heads = settings.get("hidden_size"), settings.get("num_attention_heads")
    if isinstance(hidden, int) and isinstance(heads, int) and heads and hidden % heads == 0:
        found |= {"head_dim": hidden // heads}
    return {k: v for k, v in found.items() if settings.get(k, 0) is None}


def is_layers(name: str) -> bool:
    """Whether an attribute counts layers."""
    return bool(LAYERS.search(name)) and name not in NOT_LAYERS


def kept_layers(settings: dict[str, Value], length: int, count: int) -> list[int]:
    """Which of *length* layers stay: the first of each kind that a list of kinds has, at least *count*."""
    kinds = [v for v in settings.values() if isinstance(v, list) and len(v) == length]
    first = {str([kind[i] for kind in kinds]): i for i in reversed(range(length))}
    of_kinds = sorted(first.values())[:6]
    more = [i for i in range(length) if i not in of_kinds]
    return sorted(of_kinds + more[: max(0, count - len(of_kinds))])


def shrunk_value(name: str, value: Value, by: Shrink, kept: dict[int, list[int]]) -> Value:
    """One attribute made smaller; what no rule names stays as it is."""
    if isinstance(value, dict):
        return shrunk(value, by)
    if isinstance(value, (list, tuple)):
        return shrunk_list(name, list(value), by, kept)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if FEATURE_LAYERS.search(name) and by.layers:
        return min(value, by.layers)
    if TOKEN.search(name):
        return value if value < VOCABULARY else VOCABULARY - 2 - value % 97
    if name in CAPS:
        return min(value, CAPS[name])
    if is_layers(name):
        return len(kept[value]) if value in kept else value
    if name == "image_size" and by.side and value > SIDE:
        return SIDE if value % 16 == 0 else 56
    return divided(name, value, by.factor)


def shrunk_list(name: str, values: list[Value], by: Shrink, kept: dict[int, list[int]]) -> Value:
    """A list made smaller: of layers by the layers that stay, of stages by each stage's depth, of widths by each."""
    if len(values) in kept:
        return [values[i] for i in kept[len(values)]]
    if values and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        numbers = [int(str(v)) for v in values]
        if FEATURE_LAYERS.search(name) and by.layers:
            return [max(by.layers - 1 - i, 0) for i in range(len(numbers))]
        if STAGES.search(name) and by.layers:
            return [min(v, by.layers) for v in numbers]
        if INDEXES.search(name) and kept:
            return sorted({min(v, max(map(len, kept.values())) - 1) for v in numbers})
        if name == "image_size" and by.side:
            return [SIDE if v % 16 == 0 else 56 for v in numbers]
        return [divided(name, v, by.factor) for v in numbers]
    return [shrunk(v, by) if isinstance(v, dict) else v for v in values]


def divided(name: str, value: int, factor: int) -> int:
    """A width divided by *factor*, where it stays at least 2; what is no width as it is."""
    if KEPT.search(name) and name != "mrope_section":
        return value
    return value // factor if value % factor == 0 and value >= 2 * factor else value
