"""Tokenizers that join the end of a prompt and the beginning of an option, and tiny models with one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plugins.tiny import save, spread

# Sentences for which a tokenizer without rules for words learns tokens that reach over the colon and into the option.
TRAINING_LINES = [
    "答：水滴石穿",
    "答：千里之行始于足下",
    "こたえは猫に小判です",
    "คำตอบคือน้ำขึ้นให้รีบตัก",
    "the answer is unlikely",
]
PROMPT = "答："
OPTIONS = ("水滴石穿", "千里之行始于足下", "骄")  # the last one is not joined
BYTES = [f"<0x{value:02X}>" for value in range(256)]


def byte_pairs(size: int = 500) -> Any:
    """Byte pairs as of GPT-2, but without its rules for words, so that letters and marks are joined."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<e>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TRAINING_LINES * 20, trainer)
    return _wrapped(tokenizer, eos_token="<e>")


def sentence_pieces(*, legacy: bool) -> Any:
    """Pairs of pieces as of Llama: a blank before the first word, unknown letters as bytes, a token that opens texts.

    `legacy` puts the blank there by replacing the text, as old conversions do, even after special tokens.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", *BYTES])
    tokenizer.train_from_iterator(TRAINING_LINES * 20, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return _wrapped(tokenizer, bos_token="<s>", eos_token="<s>", unk_token="<unk>")


def closed_pieces(normalizer: str = "NFC") -> Any:
    """Single letters after normalization, with a token after every text, unknown letters as one token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    letters = sorted(
        {letter for text in TRAINING_LINES for letter in text if letter != " "} | {"|", "é", "c", "f", "\u0301"}
    )
    vocabulary = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), *((letter, -3.0) for letter in letters)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer.normalizer = getattr(normalizers, normalizer)()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 1)]
    )
    return _wrapped(tokenizer, eos_token="</s>", unk_token="<unk>")


def word_pieces() -> Any:
    """Pieces of words as of BERT, with tokens around every text; a word with unknown letters is one token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    names = ["[UNK]", "[CLS]", "[SEP]", "|", ":", "the", "answer", "is", "un", "##like", "##ly", "unlike", "like"]
    tokenizer = Tokenizer(models.WordPiece({name: index for index, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return _wrapped(tokenizer, bos_token="[CLS]", eos_token="[SEP]", unk_token="[UNK]")


def _wrapped(tokenizer: Any, **marks: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **marks)


def causal_checkpoint(folder: Path, tokenizer: Callable[[], Any] = byte_pairs) -> Path:
    """Save a tiny GPT-2 with one of these tokenizers."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    trained = tokenizer()
    torch.manual_seed(3)
    ids = {"bos_token_id": trained.bos_token_id, "eos_token_id": trained.eos_token_id}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(trained), n_embd=16, n_layer=2, n_head=2, n_positions=256, **ids))
    spread(model)
    save(model, trained, folder)
    return folder


def masked_checkpoint(folder: Path) -> Path:
    """Save a tiny BERT whose tokenizer joins letters and marks."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from tests.plugins.tiny import SMALL_SIZES

    trained = byte_pairs()
    trained.add_special_tokens({"mask_token": "<mask>", "pad_token": "<pad>"})
    torch.manual_seed(3)
    model = BertForMaskedLM(BertConfig(vocab_size=len(trained), max_position_embeddings=256, **SMALL_SIZES))
    spread(model)
    save(model, trained, folder)
    return folder
