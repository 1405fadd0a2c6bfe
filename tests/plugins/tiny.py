"""Generate tiny models of all relevant architectures, with random weights and a tokenizer trained on a few lines.

They are saved in the format of transformers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LINES = [
    "A stitch in time saves nine, as my grandmother used to say.",
    "The roof leaked for a month before anybody climbed up to look at it.",
    "Does it follow? Yes, it does. No, it does not. Maybe it is unrelated.",
    "Empty vessels make the most noise, and the quiet ones know the way.",
    "He kicked the bucket into the corner and the bucket rolled back.",
    "Unbelievable! Rereading unforgivingly long sentences, she misunderstood everything.",
]
LONG_TEXT = " ".join(LINES * 3)
SMALL_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
POSITIONS = 96


# ---- tokenizers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """Special tokens in the order of their ids."""

    names: dict[str, str]
    opening: str = ""
    closing: str = ""
    between: int = 1  # how many closing marks part the two texts of a pair
    types: bool = False


BERT = Marks({"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
              "mask_token": "[MASK]"}, "[CLS]", "[SEP]", types=True)  # fmt: skip
ROBERTA = Marks({"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>",
                 "mask_token": "<mask>"}, "<s>", "</s>", between=2)  # fmt: skip
GPT2 = Marks({"eos_token": "<|endoftext|>"})
BART = Marks({"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}, "<s>", "</s>")
T5 = Marks({"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}, "", "</s>")


# What a test learns must not hang on the order in which a trainer hashes words, which is another one each time.


def word_pieces(specials: list[str], texts: Sequence[str] = LINES, size: int = 90) -> Any:
    """The pieces that byte-pair encoding finds in texts, `size` at most, each at the beginning of a word and within.

    A trainer of word pieces decides between equals by what it hashed first.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer()
    learnt = Tokenizer(models.BPE())
    learnt.normalizer, learnt.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    letters = sorted({letter for text in texts for letter in normalizer.normalize_str(text) if letter != " "})
    learnt.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=letters))
    pieces = sorted(learnt.get_vocab())
    names = [*specials, *pieces, *(f"##{piece}" for piece in pieces)]
    numbers = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, learnt.pre_tokenizer
    tokenizer.add_special_tokens(specials)
    return tokenizer


def byte_pairs(specials: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def unigrams(specials: list[str]) -> Any:
    """Sorted, since the trainer's order is another one each time."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    unknown = next(name for name in specials if "unk" in name.lower())
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=specials, unk_token=unknown)
    tokenizer.train_from_iterator(LINES, trainer)
    scores = {name: round(score, 6) for name, score in json.loads(tokenizer.to_str())["model"]["vocab"]}
    order = [*specials, *sorted(scores.keys() - set(specials))]
    tokenizer.model = models.Unigram([(name, scores[name]) for name in order], unk_id=order.index(unknown))
    return tokenizer


def make_tokenizer(kind: Callable[[list[str]], Any], marks: Marks) -> Any:
    """A fast tokenizer of a kind, with the special tokens around texts and pairs of texts."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    names = list(dict.fromkeys(marks.names.values()))
    tokenizer = kind(names)
    used = [name for name in (marks.opening, marks.closing) if name]
    parts = [[f"{marks.opening}:0"] if marks.opening else [], [f"{marks.closing}:0"] if marks.closing else []]
    ids = [(name, tokenizer.token_to_id(name)) for name in used]
    second = "1" if marks.types else "0"
    if used:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*parts[0], "$A:0", *parts[1]],
            pair=[*parts[0], "$A:0", *parts[1] * marks.between, f"$B:{second}", f"{marks.closing}:{second}"],
            special_tokens=ids,
        )
    inputs = ["input_ids", *(["token_type_ids"] if marks.types else []), "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=POSITIONS, model_input_names=inputs, **marks.names
    )


# ---- models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How one architecture is made small."""

    name: str  # of the transformers classes: Bert → BertConfig, BertForMaskedLM
    tokenizer: Callable[[list[str]], Any]
    marks: Marks
    config: dict[str, Any] = field(default_factory=dict)

    def build_config(self, vocabulary: int, **further: Any) -> Any:
        import transformers

        return getattr(transformers, f"{self.name}Config")(vocab_size=vocabulary, **{**self.config, **further})


KINDS = {
    "bert": Kind("Bert", word_pieces, BERT, {**SMALL_SIZES, "max_position_embeddings": POSITIONS}),
    "roberta": Kind(
        "Roberta", byte_pairs, ROBERTA, {**SMALL_SIZES, "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
    ),
    "mpnet": Kind("MPNet", byte_pairs, ROBERTA, {**SMALL_SIZES, "max_position_embeddings": POSITIONS + 2}),
    "distilbert": Kind(
        "DistilBert",
        word_pieces,
        Marks(BERT.names, "[CLS]", "[SEP]"),
        {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2, "max_position_embeddings": POSITIONS},
    ),
    "albert": Kind(
        "Albert", unigrams, BERT, {**SMALL_SIZES, "embedding_size": 8, "max_position_embeddings": POSITIONS}
    ),
    "deberta": Kind(
        "Deberta",
        byte_pairs,
        Marks(BERT.names, "[CLS]", "[SEP]"),
        {
            **SMALL_SIZES,
            "max_position_embeddings": POSITIONS,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
        },
    ),
    "deberta-v2": Kind(
        "DebertaV2",
        unigrams,
        Marks(BERT.names, "[CLS]", "[SEP]"),
        {
            **SMALL_SIZES,
            "max_position_embeddings": POSITIONS,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
        },
    ),
    "electra": Kind(
        "Electra", word_pieces, BERT, {**SMALL_SIZES, "embedding_size": 8, "max_position_embeddings": POSITIONS}
    ),
    "gpt2": Kind("GPT2", byte_pairs, GPT2, {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": POSITIONS}),
    "llama": Kind("Llama", byte_pairs, T5, {**SMALL_SIZES, "max_position_embeddings": POSITIONS}),
    "mistral": Kind(
        "Mistral",
        byte_pairs,
        T5,
        {**SMALL_SIZES, "max_position_embeddings": POSITIONS, "sliding_window": 8, "num_key_value_heads": 1},
    ),
    "mamba": Kind("Mamba", byte_pairs, T5, {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}),
    "bart": Kind(
        "Bart",
        byte_pairs,
        BART,
        {
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_position_embeddings": POSITIONS,
        },
    ),
    "t5": Kind(
        "T5",
        unigrams,
        T5,
        {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0},
    ),
}
ENCODERS = ("bert", "roberta", "mpnet", "distilbert", "albert", "deberta", "deberta-v2", "electra")


class Workshop:
    """Makes checkpoints, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[tuple[Any, ...], Path] = {}

    def __call__(self, kind: str, head: str = "ForMaskedLM", **config: Any) -> Path:
        """The folder of a checkpoint: `workshop("bert", "ForSequenceClassification", num_labels=1)`."""
        key = (kind, head, json.dumps(config, sort_keys=True))
        if key not in self._made:
            self._made[key] = self._make(kind, head, config)
        return self._made[key]

    def _make(self, kind: str, head: str, config: dict[str, Any]) -> Path:
        import torch
        import transformers

        architecture = KINDS[kind]
        tokenizer = make_tokenizer(architecture.tokenizer, architecture.marks)
        ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id", None) for role in ("pad", "bos", "eos")}
        torch.manual_seed(20)
        model_config = architecture.build_config(
            len(tokenizer), **{**{k: v for k, v in ids.items() if v is not None}, **config}
        )
        model = getattr(transformers, f"{architecture.name}{head}")(model_config)
        spread(model)
        folder = self.folder / f"{kind}{head}-{len(self._made)}"
        save(model, tokenizer, folder)
        return folder


def spread(model: Any) -> None:
    """Weights so large that inputs matter: fresh ones give nearly the same output for everything."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a checkpoint without the progress bar."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def change_config(folder: Path, target: Path, **changes: Any) -> Path:
    """A copy of a checkpoint whose config.json says something else; None takes an entry out."""
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text()) | changes
    (target / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return target
