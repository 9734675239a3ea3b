"""Configurations of `transformers` made small: each field by what its name says it is.

What is here: `configurations`, which builds any configuration class with two layers, widths of some
32 and a vocabulary of 99, its parts (a text and a vision configuration) alike. A class takes the
fields that it has. The idea: public configurations name their fields so alike that a dozen patterns
shrink hundreds of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# The first pattern that a field's name matches says its largest value.
_LIMITS: tuple[tuple[str, int], ...] = (
    (r"type_vocab_size|num_labels", 3),
    (r".*codebook_size|.*codebook_vocab.*|num_codevectors_per_group", 64),
    (r"(.*_)?vocab_size(_.*)?", 99),
    (r"num_hidden_groups|n_group|topk_group|n_shared_experts", 1),
    (r".*experts_per_tok|.*top_?k(_.*)?|num_experts_per_token|moe_k", 2),
    (r".*num_.*experts|n_routed_experts|num_experts|moe_num_experts", 4),
    (r".*head_dim|d_kv|head_size|qk_.*_dim|rotary_dim|d_head|state_size|kv_channels", 8),
    (r".*(kv|key_value|query_group).*heads?.*", 2),
    (r".*heads?", 4),
    (r".*(layers|layer|depth|blocks|block_num)", 2),
    (r"(max_)?(image|img|input|crop)_size", 32),
    (r"(.*_)?patch_size", 8),
    (r".*lora_rank|.*_rank", 16),
    (r"max_.*(positions?|length|len)(_embeddings)?|n_positions|n_ctx|.*position_embeddings", 64),
    (r"(max_)?(source|target)_positions|num_positions|max_.*_embeddings", 64),
    (r"intermediate_size|.*ffn?_.*dim|d_ff|ffn_hidden_size|feedforward_channels", 48),
    (r".*(size|dim|dims|width|features|channels|hidden|d_model|n_embd|n_inner|filters)", 32),
    (r".*(queries|tokens|latents|rank|rank_size)", 8),
)
_WIDTHS = re.compile(r".*(sizes|dims?|channels|widths|hidden|filters|out_channels|embed_dims?)")
_COUNTS = re.compile(r".*(depths|num_layers|layers|num_blocks|layer_depths)")
_FIXED: dict[str, object] = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "attention_window": 8,
    "prediction_length": 8,
    "axial_pos_embds_dim": [16, 16],
    "axial_pos_shape": [8, 8],
    "attention_types": [[["global", "local"], 1]],
}
# What a class needs besides: fields that its others determine, or that have no standard value.
_BESIDES: dict[str, dict[str, object]] = {
    **{name: {"head_dim": 8} for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral")},
    **{name: {"head_dim": 8} for name in ("hunyuan_vl_text", "lfm2_moe")},
    **{
        name: {"num_key_value_heads": 4}
        for name in (
            *("esmc", "glm5_next", "glm5_next_text", "deepseek_v2", "deepseek_v3", "kimi_k25"),
            *("glm4_moe_lite", "deepseek_v32", "longcat_flash", "youtu"),
        )
    },
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_n_groups": 1},
    "esm": {"vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1},
    "mimi": {"num_filters": 16, "upsample_groups": 32, "hidden_size": 32},
    "lw_detr_vit": {"image_size": 64, "num_windows": 4},
    "zamba": {"num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    "zamba2": {"num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    "bit": {"num_groups": 4, "embedding_size": 32},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 2},
}
_KEPT = frozenset(
    (
        *("num_channels", "in_channels", "num_mel_bins", "in_chans", "num_feat_extract_layers"),
        *("num_conv_pos_embedding_groups", "num_groups", "rope_parameters", "mamba_n_heads"),
        *("mamba_num_heads", "mamba_d_head", "mamba_head_dim", "audio_channels"),
    )
)


def configurations(kind: Any) -> Iterator[Any]:
    """Small configurations of the class ``kind``, for models that refuse the first one."""
    given = fields(kind)
    yield kind(**given)
    heads = given.get("num_attention_heads")
    if heads and given.get("num_key_value_heads") not in (None, heads):
        yield kind(**{**given, "num_key_value_heads": heads})
    if "head_dim" in given:
        yield kind(**{**given, "head_dim": 8})
    if given.get("num_hidden_layers") == 2:
        yield kind(**{**given, "num_hidden_layers": 4})


def fields(kind: Any) -> dict[str, object]:
    """What to build ``kind`` with, so that it is small."""
    standard = kind()
    parts = getattr(kind, "sub_configs", {}) or {}
    found: dict[str, object] = {}
    for name, value in vars(standard).items():
        if name.startswith("_") or name in _KEPT:
            continue
        part = getattr(standard, name, None)
        if name in parts and part is not None and hasattr(part, "to_dict"):
            found[name] = {**fields(type(part)), "model_type": part.model_type}
        elif (smaller := _smaller(name, value)) != value:
            found[name] = smaller
    besides = _BESIDES.get(getattr(kind, "model_type", ""), {})
    return {**_distinct_tokens(found, vars(standard)), **besides}


def _smaller(name: str, value: object) -> object:
    if name in _FIXED and (value is not None or name == "prediction_length"):
        return _FIXED[name]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return 0.0 if "drop" in name else value
    if isinstance(value, int):
        return _limited(name, value)
    if isinstance(value, (list, tuple)) and re.fullmatch(r".*(layer|block)s?_types?", name):
        return list(dict.fromkeys(value))[:2] if len(set(value)) > 1 else list(value)[:2]
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        return _shorter(name, list(value))
    return value


def _limited(name: str, value: int) -> int:
    for pattern, limit in _LIMITS:
        if re.fullmatch(pattern, name):
            return min(value, limit)
    return value


def _shorter(name: str, values: list[int]) -> list[int]:
    if _COUNTS.fullmatch(name):
        return [min(v, 1) for v in values]
    if re.fullmatch(r".*(image|input|crop)_size", name):
        return [min(v, 32) for v in values]
    if re.fullmatch(r".*patch_size", name):
        return [min(v, 8) for v in values]
    if _WIDTHS.fullmatch(name) and max(values) > 48:
        steps = sorted(set(values))
        return [16 * 2 ** min(steps.index(v), 3) for v in values]
    if "heads" in name:
        return [min(2**i, 4, v) for i, v in enumerate(values)]
    return values


def _distinct_tokens(found: dict[str, object], standard: Mapping[str, object]) -> dict[str, object]:
    """Special tokens of their own within the small vocabulary."""
    free = iter(range(98, 10, -1))
    for name, value in standard.items():
        special = name.endswith(("_token_id", "_token_index")) and name not in _FIXED
        if special and isinstance(value, int) and value > 10:
            found[name] = next(free)
    return found
