"""Tiny random causal models of all relevant architectures, with attention windows shorter than the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

WORDS = 200
POSITIONS = 256
WINDOW = 8
COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": WORDS,
    "max_position_embeddings": POSITIONS,
}
GROUPED_HEADS = {**COMMON, "num_key_value_heads": 2}
SIZED_HEADS = {**GROUPED_HEADS, "head_dim": 8}
GPT_SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS, "vocab_size": WORDS}
MIXED_ATTENTION = ["sliding_attention", "full_attention", "sliding_attention"]

PACKED_CONFIGS = {  # name of the config class without "Config" → its options
    "GPT2": GPT_SIZES,
    "GPTJ": {**GPT_SIZES, "rotary_dim": 4},
    "Llama": GROUPED_HEADS,
    "Mistral": {**GROUPED_HEADS, "sliding_window": WINDOW},
    "Mixtral": {**GROUPED_HEADS, "num_local_experts": 2},
    "Qwen2": GROUPED_HEADS,
    "Qwen3": SIZED_HEADS,
    "Gemma": SIZED_HEADS,
    "Gemma2": {**SIZED_HEADS, "sliding_window": WINDOW},
    "Gemma3Text": {**SIZED_HEADS, "num_hidden_layers": 3, "sliding_window": WINDOW, "layer_types": MIXED_ATTENTION},
    "Phi": COMMON,
    "Phi3": {**GROUPED_HEADS, "pad_token_id": 0},
    "OPT": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "ffn_dim": 64,
        "vocab_size": WORDS,
        "max_position_embeddings": POSITIONS,
        "word_embed_proj_dim": 32,
    },
    "GPTNeoX": COMMON,
    "Falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": WORDS},
    "StableLm": GROUPED_HEADS,
    "Olmo2": GROUPED_HEADS,
    "Cohere": GROUPED_HEADS,
    "Starcoder2": {**GROUPED_HEADS, "sliding_window": WINDOW},
    "GptOss": {**SIZED_HEADS, "sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1},
}
SHARING = {  # no mask of ours, yet keys and values of a common beginning
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": WORDS},
    "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "vocab_size": WORDS, "max_seq_len": POSITIONS},
    "GPTNeo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": WORDS,
        "max_position_embeddings": POSITIONS,
        "window_size": WINDOW,
        "attention_types": [[["global", "local"], 1]],
    },
}
PLAIN_CONFIGS = {  # neither
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 4},
    "RecurrentGemma": {
        **{key: value for key, value in GROUPED_HEADS.items() if key != "max_position_embeddings"},
        "num_hidden_layers": 3,
        "attention_window_size": WINDOW,
        "lru_width": 32,
        "num_key_value_heads": 1,
    },
}
CONFIGS = {**PACKED_CONFIGS, **SHARING, **PLAIN_CONFIGS}
MIXING = {  # rows of a batch change one another
    "Rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": WORDS, "attention_hidden_size": 32},
    "MiniMax": {
        **SIZED_HEADS,
        "layer_types": ["linear_attention", "full_attention"],
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
}


def quick_if_in(names: Sequence[str]) -> list[Any]:
    """The architectures that support a strategy, as parameters of a test: those of other names are slow."""
    slow_names = [name for name in [*PACKED_CONFIGS, *SHARING] if name not in names]
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow_names)]


def build(name: str, **further: Any) -> Any:
    """A model with weights large enough that inputs matter."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**(CONFIGS | MIXING)[name], **further})
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    return model
