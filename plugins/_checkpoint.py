"""Where a model's files are, what its config says it is, and a digest of all that its answers depend on.

A folder is used as it is; anything else is a hub id, fetched into the hub's own cache. What is in that cache is used
without asking the hub again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from figeval.errors import ModelError
from figeval.types import JSON

CONFIG = "config.json"
MODULES = "modules.json"
SENTENCE = "config_sentence_transformers.json"
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
FILES = ["*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py"]
WEIGHTS = ("*.safetensors", "*.bin")  # the second is fetched only where there is none of the first
# Documentation, other frameworks' weights, traces of training: no answer depends on them.
IGNORED = ["*.md", ".*", "*/.*", "onnx/*", "openvino/*", "coreml/*", "original/*", "checkpoint-*/*", "runs/*"]
IGNORED += ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.png", "*.pt", "training_args.bin", "*.pyc"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as the user named it, its local folder once known, and its two configuration files."""

    model: str
    revision: str | None = None
    folder: Path | None = None
    config: JSON = field(default_factory=dict)
    sentence: JSON | None = None  # config_sentence_transformers.json; {} where only modules.json is there

    @property
    def architecture(self) -> str:
        """The class that wrote the weights, as `RobertaForMaskedLM`; empty where the config does not say."""
        return next(iter(self.config.get("architectures") or ()), "")

    @property
    def is_sentence_transformer(self) -> bool:
        """Whether sentence-transformers saved it, with modules of its own."""
        return self.sentence is not None

    def folder_here(self) -> Path:
        """The folder with all its files on this machine, fetched from the hub first where need be.

        Raises:
            ModelError: the hub does not have or does not give them.
        """
        return self.folder if self.folder is not None else download(self.model, self.revision)


def locate(model: str, revision: str | None = None) -> Checkpoint:
    """Read the configuration of a folder or hub id; no weights are touched.

    Raises:
        ModelError: there is no such model, or it says nowhere what it is.
    """
    folder = Path(model).expanduser()
    if model and folder.is_dir():
        checkpoint = _read(model, None, folder, lambda name: folder / name)
        if not checkpoint.is_sentence_transformer and not any(weight_files(folder)):
            raise ModelError(f"{model!r} has a {CONFIG} but no weights (*.safetensors or *.bin); save the model again")
        return checkpoint
    if not is_hub_id(model):
        raise ModelError(f"there is no folder {model!r}; give a folder with a {CONFIG}, or a hub id like org/name")
    return _read(model, revision, None, lambda name: hub_file(model, name, revision))


def is_hub_id(model: str) -> bool:
    """Whether the text could name a repository of the model hub."""
    return bool(HUB_ID.fullmatch(model)) and not model.startswith(".")


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
    return Checkpoint(model, revision, folder, config or {}, described)


def load_json(path: Path | None) -> JSON | None:
    """The JSON of a file, None where there is no file; raises `ModelError` naming a file that holds no JSON.

    `modules.json` holds a list; all that counts is that it is there.
    """
    if path is None or not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON ({error}); save or download the model again") from error
    return value if isinstance(value, dict) else {}


# ---- what a checkpoint is: the first rule that fits names the backend ----------------------------------------------


def ends(*endings: str) -> Callable[[Checkpoint], bool]:
    """Whether the name of the architecture ends so."""
    return lambda checkpoint: checkpoint.architecture.endswith(endings)


RULES: tuple[tuple[Callable[[Checkpoint], bool], str], ...] = (
    (ends("ForSequenceClassification"), "pairs"),  # before sentence-transformers: its cross-encoders are such
    (lambda checkpoint: checkpoint.is_sentence_transformer, "encoder"),
    (ends("ElectraForPreTraining"), "encoder"),  # tells replaced tokens from real ones; has no word to predict
    (ends("ForMaskedLM", "ForPreTraining", "XLMWithLMHeadModel", "FlaubertWithLMHeadModel"), "masked"),
    (ends("ForCausalLM", "LMHeadModel", "DoubleHeadsModel", "ForConditionalGeneration"), "hf"),
    (ends("Model"), "encoder"),
    (lambda checkpoint: bool(checkpoint.config.get("model_type")) and not checkpoint.architecture, "encoder"),
)


def backend_of(checkpoint: Checkpoint) -> str | None:
    """The built-in backend that can use a checkpoint, None for heads that none of them knows."""
    return next((backend for fits, backend in RULES if fits(checkpoint)), None)


def require(checkpoint: Checkpoint, backend: str, *, also: tuple[str, ...] = ()) -> None:
    """Raise `ModelError` naming the right backend when a checkpoint is not for this one."""
    served = backend_of(checkpoint)
    if served == backend or served in also:
        return
    kind = checkpoint.architecture or "a checkpoint that names no architecture"
    cure = f"use --model {served}:{checkpoint.model}" if served else "no built-in backend serves that head"
    raise ModelError(f"{backend!r} cannot use {checkpoint.model!r}, which is {kind}; {cure}")


# ---- the hub -------------------------------------------------------------------------------------------------------


def hub_file(model: str, name: str, revision: str | None) -> Path | None:
    """One file of a hub repository from the cache or the hub; None where it has no such file or cannot be asked.

    Raises:
        ModelError: the hub has no such model or revision, or does not give it.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(model, name, revision=revision)
    if isinstance(cached, str):
        return Path(cached)
    if cached is not None or unreachable():  # not None: the cache remembers that there is no such file
        return None
    return ask_hub(model, lambda: Path(hf_hub_download(model, name, revision=revision)))


@lru_cache(maxsize=1)
def unreachable() -> str:
    """Why the hub cannot be asked, empty if it can. Its own client would go on trying for half a minute."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        httpx.head(constants.ENDPOINT, timeout=10)
    except httpx.HTTPError as error:
        return f"{constants.ENDPOINT}: {' '.join(str(error).split()) or type(error).__name__}"
    return ""


def ask_hub(model: str, call: Callable[[], Path]) -> Path | None:
    """The path that a download returns, None where the repository has no such file.

    Raises:
        ModelError: one line for each way in which the hub says no.
    """
    from huggingface_hub import errors

    try:
        return call()
    except errors.GatedRepoError as error:
        raise ModelError(f"the hub gives {model!r} only to those who accept its terms; then `hf auth login`") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(f"the hub has no model {model!r} for you; see `figeval ls models` for names") from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"the hub has {model!r}, but not that revision; leave revision= out") from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelError(f"the hub did not answer when asked for {model!r}; try again, or give a folder") from error
    except errors.EntryNotFoundError:
        return None


def download(model: str, revision: str | None) -> Path:
    """The folder with all files of a hub repository that a model is made from, fetched where they are not cached.

    Raises:
        ModelError: the hub does not give them, or they hold no weights.
    """
    from huggingface_hub import snapshot_download

    for weights in WEIGHTS:
        wanted = [*FILES, weights]

        def fetch(wanted: list[str] = wanted) -> Path:
            return Path(snapshot_download(model, revision=revision, allow_patterns=wanted, ignore_patterns=IGNORED))

        folder = ask_hub(model, fetch)
        if folder is not None and any(weight_files(folder)):
            return folder
    raise ModelError(f"{model!r} has no weights for PyTorch (*.safetensors or *.bin); name another model")


# ---- the digest ----------------------------------------------------------------------------------------------------


def model_files(folder: Path) -> list[Path]:
    """Every file that answers may depend on, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if not any(fnmatch(path.relative_to(folder).as_posix(), p) for p in IGNORED)]


def weight_files(folder: Path) -> list[Path]:
    """The weights among them."""
    return [path for path in model_files(folder) if any(path.match(pattern) for pattern in WEIGHTS)]


def fingerprint(folder: Path) -> str:
    """`sha256:` of names and bytes of weights, configuration and tokenizer; streamed.

    A change that does not matter costs a computation; one that was missed would serve another model's scores. So all
    counts that is not documentation.
    """
    digest = hashlib.sha256()
    for path in model_files(folder):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"
