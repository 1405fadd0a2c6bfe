"""Checkpoints: where a model's files are, which backend its config names, and what it declares of itself.

A folder is used as it is; anything else is a hub id. `RULES` decides which backend serves `--model roberta-large`.
`figeval.json` beside the weights gives values of options that the other files do not tell:

    {"kind": "encoder", "pooling": "cls", "similarity": "dot", "about": {"trained_on": "…"}}

Options from --model_args override it. `kind` is the backend that the model was saved for; `about` is for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from figeval.errors import ModelError, near
from figeval.files import expand_user, is_folder
from figeval.jsonfile import read_json
from figeval.types import JSON

from .files import DECLARED, NotOnHub, download, fingerprint, hub_file, unreachable, weight_files
from .settings import Settings, one_of

CONFIG = "config.json"
MODULES = "modules.json"
SENTENCE = "config_sentence_transformers.json"
SENTENCE_TRANSFORMER = "SentenceTransformer"
LONGEST_ID = 96
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as the user named it, its local folder once known, and its configuration files."""

    model: str
    revision: str | None = None
    folder: Path | None = None
    config: JSON = field(default_factory=dict)
    sentence: JSON | None = None  # config_sentence_transformers.json; {} where only modules.json is there
    declared: JSON = field(default_factory=dict)  # figeval.json

    @property
    def architecture(self) -> str:
        """The class that wrote the weights, as `RobertaForMaskedLM`; empty where the config does not say."""
        return next(iter(self.config.get("architectures") or ()), "")

    @property
    def sentence_class(self) -> str:
        """The class of sentence-transformers that saved it; empty where it was not that library."""
        return "" if self.sentence is None else str(self.sentence.get("model_type", SENTENCE_TRANSFORMER))

    @property
    def is_sentence_transformer(self) -> bool:
        """Whether it is a sentence-transformers encoder with modules of its own."""
        return self.sentence_class == SENTENCE_TRANSFORMER

    def folder_here(self) -> Path:
        """The folder with all its files on this machine, fetched from the hub first where need be.

        Raises:
            ModelError: the hub does not have or does not give them.
        """
        return self.folder if self.folder is not None else download(self.model, self.revision)

    def fingerprint(self) -> str:
        """Digest of its weights, configuration and tokenizer."""
        return fingerprint(self.folder_here())


def locate(model: str, revision: str | None = None) -> Checkpoint:
    """Read the configuration of a folder or hub id; no weights are touched.

    Raises:
        ModelError: there is no such model, or it says nowhere what it is.
    """
    if not model:
        raise ModelError("no checkpoint is named; put its folder or hub id behind a colon, as in encoder:org/name")
    folder = expand_user(model)
    if is_folder(folder):
        checkpoint = _read(model, None, folder, lambda name: folder / name)
        if not checkpoint.is_sentence_transformer and not any(weight_files(folder)):
            raise ModelError(f"{model!r} has a {CONFIG} but no weights (*.safetensors or *.bin); save the model again")
        return checkpoint
    # Whether the text could name a repository of the model hub, as the hub's client has it.
    plain = len(model) <= LONGEST_ID and not any(sign in model for sign in ("--", ".."))
    if not (plain and HUB_ID.fullmatch(model) and model[0] not in "-." and model[-1] not in "-."):
        raise ModelError(f"there is no folder {model!r}; give a folder with a {CONFIG}, or a hub id like org/name")
    return _read(model, revision, None, lambda name: hub_file(model, name, revision))


def has_chat_template(checkpoint: Checkpoint) -> bool:
    """Whether its tokenizer knows how the turns of a conversation are put; no weights are fetched."""
    folder = checkpoint.folder

    def path(name: str) -> Path | None:
        return hub_file(checkpoint.model, name, checkpoint.revision) if folder is None else folder / name

    template = path("chat_template.jinja")
    described = load_json(path("tokenizer_config.json")) or {}
    return bool(described.get("chat_template")) or (template is not None and template.is_file())


def check_chat_template(checkpoint: Checkpoint, apply: bool | None) -> None:
    """Raise `ModelError` for a chat template without a word on whether to use it, or for none that is to be used."""
    chats = has_chat_template(checkpoint)
    if chats and apply is None:
        raise ModelError(f"{checkpoint.model!r} has a chat template; say --apply_chat_template or --no_chat_template")
    if apply and not chats:
        raise ModelError(f"{checkpoint.model!r} has no chat template; leave --apply_chat_template out")


def _read(model: str, revision: str | None, folder: Path | None, path: Callable[[str], Path | None]) -> Checkpoint:
    config, modules, sentence = (load_json(path(name)) for name in (CONFIG, MODULES, SENTENCE))
    if config is None and modules is None:
        if folder is None and (reason := unreachable()):
            raise ModelError(
                f"{model!r} is no registered model and no folder, and the model hub cannot be asked ({reason}); "
                "see `figeval ls models`, or copy the model into a folder and name that"
            )
        raise ModelError(f"{model!r} has neither {CONFIG} nor {MODULES}; give a folder that transformers saved")
    described = sentence if sentence is not None else ({} if modules is not None else None)
    return Checkpoint(model, revision, folder, config or {}, described, load_json(path(DECLARED)) or {})


def load_json(path: Path | None) -> JSON | None:
    """The JSON of a file, None where there is no file; raises `ModelError` naming a file that holds no JSON.

    `modules.json` holds a list; all that counts is that it is there.
    """
    if path is None or not path.is_file():
        return None
    value = read_json(path, ModelError, cure="save or download the model again")
    return value if isinstance(value, dict) else {}


# ---- what a checkpoint declares of itself, in figeval.json ---------------------------------------------------------

KINDS = ("classifier", "encoder", "joint", "marker", "pair_encoder", "pairs", "spans", "tagger", "writer")
WRITING = ("inputs", "separator", "marker", "num_beams", "max_new_tokens")
SPANS = ("text", "question", "max_span", "null_score")
OPTIONS = ("pooling", "similarity", "normalize", "activation", "product", *SPANS, "max_length", *WRITING)
KEYS = ("kind", *OPTIONS, "about")

S = TypeVar("S", bound=Settings)


def with_declared(settings: S, checkpoint: Checkpoint) -> S:
    """The settings, with what the checkpoint declares where nothing else was asked for.

    Raises:
        ModelError: an unknown key, or a value that is not of its kind.
    """
    declared = checkpoint.declared
    own = {field.name for field in fields(settings)} & set(OPTIONS)
    given = {name: declared[name] for name in own & set(declared) if getattr(settings, name) is None}
    try:
        for key in sorted(set(declared) - set(KEYS)):
            raise ModelError(f"unknown key {key!r}{near(key, KEYS)}; it may have {', '.join(KEYS)}")
        if "kind" in declared:
            one_of("kind", declared["kind"], KINDS)
        return replace(settings, **given)
    except ModelError as error:
        raise ModelError(f"{DECLARED} of {checkpoint.model!r}: {error}") from error


# ---- what a checkpoint is for: the first rule that fits names the backend ------------------------------------------


def ends(*endings: str) -> Callable[[Checkpoint], bool]:
    """Whether the name of the architecture ends so."""
    return lambda checkpoint: checkpoint.architecture.endswith(endings)


def is_nameless_encoder(checkpoint: Checkpoint) -> bool:
    """Whether the config names no architecture, but a type that has masked models, as DeBERTa-v3's does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    return not checkpoint.architecture and checkpoint.config.get("model_type") in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def is_encoder_decoder(checkpoint: Checkpoint) -> bool:
    """Whether it reads with one network and writes with another, and has the head to do so."""
    writes = ends("ForConditionalGeneration", "LMHeadModel")(checkpoint) or not checkpoint.architecture
    return writes and bool(checkpoint.config.get("is_encoder_decoder"))


RULES: tuple[tuple[Callable[[Checkpoint], bool], str | None], ...] = (
    (lambda checkpoint: checkpoint.declared.get("kind") == "classifier", "classifier"),
    (lambda checkpoint: checkpoint.declared.get("kind") == "joint", "joint"),
    (lambda checkpoint: checkpoint.declared.get("kind") == "marker", "marker"),
    (lambda checkpoint: checkpoint.declared.get("kind") == "pair_encoder", "pair_encoder"),
    (lambda checkpoint: checkpoint.declared.get("kind") == "writer", "writer"),
    (ends("ForQuestionAnswering"), "spans"),
    (ends("ForTokenClassification"), "tagger"),
    (ends("ForSequenceClassification"), "pairs"),  # before sentence-transformers: its cross-encoders are such
    (lambda checkpoint: checkpoint.is_sentence_transformer, "encoder"),
    (lambda checkpoint: bool(checkpoint.sentence_class), None),  # its sparse and generative models
    (ends("ElectraForPreTraining"), "encoder"),  # tells replaced tokens from real ones; predicts no word
    (ends("ForMaskedLM", "ForPreTraining", "XLMWithLMHeadModel", "FlaubertWithLMHeadModel"), "masked"),
    (is_encoder_decoder, "seq2seq"),
    (ends("ForCausalLM", "LMHeadModel", "DoubleHeadsModel", "ForConditionalGeneration"), "causal"),
    (ends("Model"), "encoder"),
    (is_nameless_encoder, "encoder"),
    (lambda checkpoint: "model_type" in checkpoint.config and not checkpoint.architecture, "causal"),
)


def backend_of(checkpoint: Checkpoint) -> str | None:
    """The built-in backend that can use a checkpoint, None for heads that none of them knows."""
    return next((backend for fits, backend in RULES if fits(checkpoint)), None)


def by_class(checkpoint: Checkpoint) -> str | None:
    """The backend for the class of a checkpoint, whatever its figeval.json says that it was trained for."""
    return backend_of(replace(checkpoint, declared={}))


def require(checkpoint: Checkpoint, *backends: str) -> None:
    """Raise `ModelError` naming the right backend when a checkpoint is for none of these.

    What was trained to write can also be asked what models of its class can. A nameless encoder may be masked, too:
    whether it has the head is seen when its weights are loaded.
    """
    served = backend_of(checkpoint)
    nameless = not checkpoint.architecture and (served, *backends) == ("encoder", "masked")
    if nameless or {served, by_class(checkpoint)} & {*backends}:
        return
    kind = checkpoint.sentence_class or checkpoint.architecture or f"{checkpoint.config.get('model_type', 'no model')}"
    cure = f"use --model {served}:{checkpoint.model}" if served else "no built-in backend is for that"
    raise ModelError(f"{backends[-1]!r} cannot use {checkpoint.model!r}, which is a {kind}; {cure}")


def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """The backend that serves a folder or hub id, by the table `RULES`; None for heads that none serves.

    Raises:
        ModelError: there is no such folder, or no way to ask the hub, or it has no such `organisation/model`.
    """
    if ":" in model and not is_folder(Path(model)):
        return None  # a misspelt backend: whoever asked knows the names near it
    try:
        return backend_of(locate(model, options.get("revision")))
    except NotOnHub:
        if "/" in model:
            raise
        return None  # as likely the misspelt name of a backend
