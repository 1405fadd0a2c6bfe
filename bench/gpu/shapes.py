"""Models of known shapes with random weights, made on the spot, and a tokenizer whose words are `w5`, `w6` …"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LLAMA: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 128, "vocab_size": 512},
    "1b": {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 8192, "vocab_size": 128_256},
    "8b": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 14_336, "vocab_size": 128_256},
}  # fmt: skip
ROBERTA: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
             "vocab_size": 512},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
              "vocab_size": 50_265},
}  # fmt: skip


def tokenizer(size: int) -> Any:
    """Return a tokenizer of `size` words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {name: number for number, name in enumerate([*SPECIAL, *(f"w{n}" for n in range(len(SPECIAL), size))])}
    word_tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    word_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A </s> $B", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=word_tokenizer, model_max_length=2_048, **names)


def llama(shape: str, device: str, dtype: torch.dtype) -> Any:
    """Return a causal model of a shape. It never writes the token that ends a text."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(max_position_embeddings=2_048, tie_word_embeddings=False, dtype=dtype, **ids, **LLAMA[shape])
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # no copy in single precision, which would need twice the memory
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    with torch.no_grad():
        model.lm_head.weight[2] = 0  # its score is 0, and the highest of many random ones is above
    return model.eval()


def write_roberta(folder: Path, shape: str) -> Path:
    """Write an encoder of a shape and its tokenizer into a folder, and return it."""
    from transformers import RobertaConfig, RobertaModel

    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    RobertaModel(
        RobertaConfig(max_position_embeddings=514, type_vocab_size=1, **ids, **ROBERTA[shape])
    ).save_pretrained(folder)
    tokenizer(ROBERTA[shape]["vocab_size"]).save_pretrained(folder)
    return folder


def multiply_adds(model: Any) -> int:
    """Return the multiply-adds per token in a model's matrices; attention and vocabulary are left out."""
    vectors = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    weights = [weight for name, weight in model.named_parameters() if weight.dim() == 2 and "lm_head" not in name]
    return sum(weight.numel() for weight in weights if id(weight) not in vectors)


def texts(number: int, words: int, size: int, seed: int = 0) -> list[str]:
    """Return texts of random words, of half to one and a half times as many words as given."""
    random = np.random.default_rng(seed)
    lengths = random.integers(words // 2, words + words // 2 + 1, number)
    return [" ".join(f"w{n}" for n in random.integers(len(SPECIAL), size, length)) for length in lengths]
