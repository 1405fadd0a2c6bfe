"""Checkpoints: a model's files, the backend that fits its config, and the options that it declares.

A folder is used as it is; any other name is a hub id. `RULES` decides which backend serves `--model roberta-large`.
`figeval.json` beside the weights gives options that the other files do not contain:

    {"kind": "encoder", "pooling": "cls", "similarity": "dot", "about": {"trained_on": "…"}}

Options from --model_args override it. `kind` is the backend that the model was saved for; `about` is information for
the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from figeval.errors import ModelError
from figeval.io.files import digest_of_file, expand_user, is_folder
from figeval.io.json_files import read_json
from figeval.io.text import near
from figeval.types import JSON

from .adapters import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    TOKENIZER,
    adapter_files,
    base_digest,
    base_name,
    check_adapter,
    check_weights_file,
    count_labels,
    is_tokenizer_file,
    join_configs,
    join_folders,
    moved_folders,
    weights_file,
)
from .files import DECLARATION, NotOnHub, download, fingerprint, hub_file, unreachable, weight_files
from .settings import Settings, one_of

CONFIG = "config.json"
MODULES = "modules.json"
SENTENCE = "config_sentence_transformers.json"
SENTENCE_TRANSFORMER = "SentenceTransformer"
LATE_INTERACTION = frozenset({"MultiVectorEncoder", "ColBERT"})  # the latter is PyLate's name
MAX_ID_CHARS = 96
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as the user named it, its local folder once known, and its configuration files.

    An adapter of peft has a `base`; `config` and the other files are then those of the two together.
    """

    model: str
    revision: str | None = None
    folder: Path | None = None
    config: JSON = field(default_factory=dict)
    sentence: JSON | None = None  # config_sentence_transformers.json; {} if there is only modules.json
    declared: JSON = field(default_factory=dict)  # figeval.json
    base: Checkpoint | None = None
    adapter: JSON = field(default_factory=dict)  # adapter_config.json

    @property
    def architecture(self) -> str:
        """Class that wrote the weights, e.g. `RobertaForMaskedLM`; empty if the config names none."""
        return next(iter(self.config.get("architectures") or ()), "")

    @property
    def sentence_class(self) -> str:
        """Class of sentence-transformers that saved the model; empty if another library did."""
        return "" if self.sentence is None else str(self.sentence.get("model_type", SENTENCE_TRANSFORMER))

    @property
    def is_sentence_transformer(self) -> bool:
        """True for a sentence-transformers encoder with modules of its own."""
        return self.sentence_class == SENTENCE_TRANSFORMER

    def folder_here(self) -> Path:
        """Return the local folder with all files, downloading them from the hub if necessary.

        Raises:
            ModelError: the hub does not have the files or denies access to them.
        """
        folder = self.adapter_folder()
        if self.base is None:
            return folder
        check_weights_file(folder, self.model)
        return join_folders(self.base.folder_here(), folder, self.config)

    def adapter_folder(self) -> Path:
        """Return the local folder of the model itself: that of an adapter has no files of its base."""
        return self.folder if self.folder is not None else download(self.model, self.revision)

    def source(self) -> Path:
        """Return the folder that says how the model was trained: an adapter's, unless only its base has a record."""
        is_recorded = self.base is None or (self.adapter_folder() / DECLARATION).is_file()
        return self.adapter_folder() if is_recorded or self.base is None else self.base.source()

    def path(self, name: str) -> Path | None:
        """Return a file beside the weights, which are not downloaded; None if the hub has no such file."""
        path = _file_of(self.model, self.revision, self.folder, name)
        if self.base is None or (path is not None and path.is_file()):
            return path
        tokenizer = _file_of(self.model, self.revision, self.folder, TOKENIZER) if is_tokenizer_file(name) else None
        return path if tokenizer is not None and tokenizer.is_file() else self.base.path(name)

    def fingerprint(self) -> str:
        """Return a digest of the weights, configuration and tokenizer, with that of an adapter's base."""
        digest = fingerprint(self.adapter_folder())
        return digest if self.base is None else f"{digest} base {self.base.fingerprint()}"

    def digest_beside_base(self) -> str:
        """Return a digest of the adapter's files that libraries read in place of the base's; empty for a whole model.

        Weights of heads, which figeval reads itself, lie beside the adapter; those of other modules have a folder.
        """
        if self.base is None:
            return ""
        files = adapter_files(self.adapter_folder())
        names = (name for name in files if name != DECLARATION and ("/" in name or not name.endswith(".safetensors")))
        return " ".join(f"{name} {digest_of_file(files[name]).hex()}" for name in names)

    def describe_adapter(self) -> JSON:
        """Return the type of an adapter and its base, for the record; empty for a whole model."""
        if self.base is None:
            return {}
        about = {"type": self.adapter["peft_type"], "base": self.base.model, "revision": self.base.revision}
        return {"adapter": about | {"base_fingerprint": self.base.fingerprint()}}

    @property
    def warnings(self) -> list[str]:
        """A warning if an adapter that was trained here belongs to another base, or another state of it."""
        if self.base is None or base_digest(weights_file(self.adapter_folder())) in ("", self.base.fingerprint()):
            return []
        return [
            f"the adapter {self.model!r} was trained on other weights than those of {self.base.model!r}, so the model "
            "is not the one that was trained; give the right ones: --model_args base=…"
        ]


def locate(model: str, revision: str | None = None, base: str | None = None) -> Checkpoint:
    """Read the configuration of a folder or hub id, without loading weights.

    Args:
        model: folder or hub id of a model, or of an adapter of peft.
        revision: branch, tag or commit on the hub.
        base: folder or hub id of an adapter's base; by default the one that the adapter names.

    Raises:
        ModelError: there is no such model, or no file describes it; an adapter has no base, or cannot be merged.
    """
    if not model:
        raise ModelError("no checkpoint is given; add its folder or hub id after a colon, e.g. encoder:org/name")
    folder = expand_user(model)
    if is_folder(folder):
        checkpoint = _read_checkpoint(model, None, folder, base)
        if checkpoint.base is not None:
            check_weights_file(folder, model)
        elif not checkpoint.is_sentence_transformer and not any(weight_files(folder)):
            raise ModelError(f"{model!r} has a {CONFIG} but no weights (*.safetensors or *.bin); save the model again")
        return checkpoint
    # The name could be a repository id of the model hub, as the hub's client defines it.
    plain = len(model) <= MAX_ID_CHARS and not any(sign in model for sign in ("--", ".."))
    if not (plain and HUB_ID.fullmatch(model) and model[0] not in "-." and model[-1] not in "-."):
        raise ModelError(f"there is no folder {model!r}; give a folder with a {CONFIG}, or a hub id like org/name")
    return _read_checkpoint(model, revision, None, base)


def _file_of(model: str, revision: str | None, folder: Path | None, name: str) -> Path | None:
    """Return a file of a folder, which may not exist, or of a hub repository; None if that has none."""
    return hub_file(model, name, revision) if folder is None else folder / name


def has_chat_template(checkpoint: Checkpoint) -> bool:
    """Return whether the tokenizer has a chat template; no weights are downloaded."""
    template = checkpoint.path("chat_template.jinja")
    tokenizer_config = load_json(checkpoint.path("tokenizer_config.json")) or {}
    return bool(tokenizer_config.get("chat_template")) or (template is not None and template.is_file())


def check_chat_template(checkpoint: Checkpoint, apply: bool | None) -> None:
    """Raise `ModelError` if it is undecided whether to use a chat template, or if the one to use is missing."""
    chats = has_chat_template(checkpoint)
    if chats and apply is None:
        raise ModelError(f"{checkpoint.model!r} has a chat template; use --apply_chat_template or --no_chat_template")
    if apply and not chats:
        raise ModelError(f"{checkpoint.model!r} has no chat template; leave --apply_chat_template out")


def _read_checkpoint(model: str, revision: str | None, folder: Path | None, base: str | None) -> Checkpoint:
    path = partial(_file_of, model, revision, folder)
    adapter = load_json(path(ADAPTER_CONFIG))
    if adapter is not None:
        return _read_adapter(Checkpoint(model, revision, folder, adapter=adapter), base)
    if base is not None:
        raise ModelError(f"base={base} is for adapters, and {model!r} has no {ADAPTER_CONFIG}; leave it out")
    config, modules, sentence = (load_json(path(name)) for name in (CONFIG, MODULES, SENTENCE))
    if config is None and modules is None:
        if folder is None and (reason := unreachable()):
            raise ModelError(
                f"{model!r} is neither a registered model nor a folder, and the model hub is unreachable ({reason}); "
                "see `figeval ls models`, or copy the model into a folder and name that"
            )
        raise ModelError(f"{model!r} has neither {CONFIG} nor {MODULES}; give a folder that transformers saved")
    sentence_config = sentence if sentence is not None else ({} if modules is not None else None)
    return Checkpoint(model, revision, folder, config or {}, sentence_config, load_json(path(DECLARATION)) or {})


def _read_adapter(files: Checkpoint, name: str | None) -> Checkpoint:
    """Return the checkpoint of an adapter, given its own files, with its base, which may have another `name`."""
    check_adapter(files.adapter, files.model)
    base_model = name or base_name(files.adapter, files.model)
    revision = None if name else files.adapter.get("revision")
    try:
        base = locate(base_model, None if revision is None else str(revision))
    except ModelError as error:
        moved = None if name else _moved_base(files, base_model)
        if moved is None:
            cure = "give another base: --model_args base=FOLDER"
            raise ModelError(f"the base of the adapter {files.model!r} cannot be opened: {error}; {cure}") from error
        base = moved
    if base.base is not None:
        raise ModelError(f"the base of the adapter {files.model!r} is an adapter, too; merge that into its own base")
    trained, modules, sentence, declared = (
        load_json(files.path(name)) for name in (CONFIG, MODULES, SENTENCE, DECLARATION)
    )
    weights = files.path(ADAPTER_WEIGHTS[0])
    labels = count_labels(weights, files.adapter) if weights is not None and trained is None else None
    from_base = {key: value for key, value in base.declared.items() if key != "about"}
    # What was trained here reads as a checkpoint of its own; its figeval.json says how, as that of a whole model does.
    base_sentence = None if "kind" in (declared or {}) else base.sentence
    return replace(
        files,
        config=join_configs(base.config, trained, files.adapter, labels, files.model),
        sentence=sentence if sentence is not None else ({} if modules is not None else base_sentence),
        declared=from_base if declared is None else declared,
        base=base,
    )


def _moved_base(files: Checkpoint, name: str) -> Checkpoint | None:
    """Return the base of an adapter if the two were moved together; None if it is not found.

    An adapter that was trained here knows the digest of its base, so nothing else is taken for it. Of others, the whole
    path must have stayed the same from a folder above the adapter on, so that it cannot be an absolute one.
    """
    if files.folder is None:
        return None
    digest = base_digest(files.folder / ADAPTER_WEIGHTS[0])
    for folder in moved_folders(files.folder, name, any_ending=bool(digest)):
        with suppress(ModelError):
            base = locate(str(folder))
            if not digest or base.fingerprint() == digest:
                return base
    return None


def load_json(path: Path | None) -> JSON | None:
    """Return the object in a JSON file, or None if there is no file.

    `modules.json` holds a list; only its presence matters, so it reads as {}.

    Raises:
        ModelError: the file is not valid JSON.
    """
    if path is None or not path.is_file():
        return None
    value = read_json(path, ModelError, cure="save or download the model again")
    return value if isinstance(value, dict) else {}


# ---- what a checkpoint declares of itself, in figeval.json ---------------------------------------------------------

KINDS = ("classifier", "encoder", "joint", "marker", "pair_encoder", "pairs", "spans", "tagger", "writer")
WRITING = ("inputs", "separator", "marker", "num_beams", "max_new_tokens", "temperature", "top_k", "top_p")
SPANS = ("text", "question", "max_span", "null_score")
PROMPTS = ("query_prompt", "document_prompt", "text_prompt")
OPTIONS = ("pooling", "similarity", "normalize", *PROMPTS, "activation", "product", *SPANS, "max_length", *WRITING)
KEYS = ("kind", *OPTIONS, "about")

S = TypeVar("S", bound=Settings)


def with_declared(settings: S, checkpoint: Checkpoint) -> S:
    """Return the settings, with options that are unset taken from the checkpoint's figeval.json.

    Raises:
        ModelError: an unknown key, or a value of the wrong kind.
    """
    declared = checkpoint.declared
    names = {field.name for field in fields(settings)} & set(OPTIONS)
    options = {name: declared[name] for name in names & set(declared) if getattr(settings, name) is None}
    try:
        for key in sorted(set(declared) - set(KEYS)):
            raise ModelError(f"unknown key {key!r}{near(key, KEYS)}; allowed keys are {', '.join(KEYS)}")
        if "kind" in declared:
            one_of("kind", declared["kind"], KINDS)
        return replace(settings, **options)
    except ModelError as error:
        raise ModelError(f"{DECLARATION} of {checkpoint.model!r}: {error}") from error


# ---- what a checkpoint is for: the first rule that fits names the backend ------------------------------------------


def ends(*endings: str) -> Callable[[Checkpoint], bool]:
    """Return a test of whether the architecture's name ends in one of these."""
    return lambda checkpoint: checkpoint.architecture.endswith(endings)


def is_nameless_encoder(checkpoint: Checkpoint) -> bool:
    """Return whether the config has no architecture, but a model type with masked models, e.g. DeBERTa-v3's."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    return not checkpoint.architecture and checkpoint.config.get("model_type") in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def is_encoder_decoder(checkpoint: Checkpoint) -> bool:
    """Return whether the model has an encoder and a decoder, and the head to generate text."""
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
    (ends("ForSequenceClassification"), "pairs"),  # before sentence-transformers, whose cross-encoders have this class
    (lambda checkpoint: checkpoint.is_sentence_transformer, "encoder"),
    (lambda checkpoint: checkpoint.sentence_class == "SparseEncoder", "sparse"),
    (lambda checkpoint: checkpoint.sentence_class in LATE_INTERACTION, "late_interaction"),
    (lambda checkpoint: bool(checkpoint.sentence_class), None),  # its generative cross-encoders
    (ends("HF_ColBERT"), "late_interaction"),
    (ends("ElectraForPreTraining"), "encoder"),  # discriminates replaced tokens from real ones; predicts no words
    (ends("ForMaskedLM", "ForPreTraining", "XLMWithLMHeadModel", "FlaubertWithLMHeadModel"), "masked"),
    (is_encoder_decoder, "seq2seq"),
    (ends("ForCausalLM", "LMHeadModel", "DoubleHeadsModel", "ForConditionalGeneration"), "causal"),
    (ends("Model"), "encoder"),
    (is_nameless_encoder, "encoder"),
    (lambda checkpoint: "model_type" in checkpoint.config and not checkpoint.architecture, "causal"),
)

WORD_MODELS = frozenset({"masked", "causal", "seq2seq"})  # backends that use the head


def backend_of(checkpoint: Checkpoint) -> str | None:
    """Return the built-in backend for a checkpoint, or None if no backend supports its head."""
    return next((backend for fits, backend in RULES if fits(checkpoint)), None)


def by_class(checkpoint: Checkpoint) -> str | None:
    """Return the backend for a checkpoint's class, ignoring what its figeval.json declares."""
    return backend_of(replace(checkpoint, declared={}))


def require(checkpoint: Checkpoint, *backends: str) -> None:
    """Raise `ModelError`, naming the right backend, if a checkpoint is for none of these.

    A model that was trained to generate can still be used as any model of its class. A nameless encoder may be a masked
    model, too; its head is checked when the weights are loaded.
    """
    backend = backend_of(checkpoint)
    nameless = not checkpoint.architecture and (backend, *backends) == ("encoder", "masked")
    if nameless or {backend, by_class(checkpoint)} & {*backends}:
        return
    kind = checkpoint.sentence_class or checkpoint.architecture or f"{checkpoint.config.get('model_type', 'no model')}"
    cure = f"use --model {quote(f'{backend}:{checkpoint.model}')}" if backend else "no built-in backend is for that"
    raise ModelError(f"{backends[-1]!r} cannot use {checkpoint.model!r}, which is a {kind}; {cure}")


def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """Return the backend for a folder or hub id by the table `RULES`, or None if no backend supports its head.

    With the option `pooling`, a model that was saved with a head for words is an encoder.

    Raises:
        ModelError: there is no such folder, the hub cannot be reached, or it has no such `organisation/model`.
    """
    if ":" in model and not is_folder(Path(model)):
        return None  # a misspelt backend: the caller knows the similar names
    try:
        backend = backend_of(locate(model, options.get("revision"), options.get("base")))
        return "encoder" if "pooling" in options and backend in WORD_MODELS else backend
    except NotOnHub:
        if "/" in model:
            raise
        return None  # probably a misspelt backend
