"""The files of a model: selection, digest, and download from the model hub.

The configuration is downloaded first, the weights only when needed. Files in the hub's own cache are used without
asking the hub again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from fnmatch import fnmatch
from functools import lru_cache, partial
from pathlib import Path

from figeval.errors import ModelError
from figeval.extras import require
from figeval.io.files import digest_of_file
from figeval.io.json_files import parse_json

PATTERNS = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
SEEN_FILE = "seen.txt"  # the training data, which no answer depends on
DECLARATION = "figeval.json"  # what the model declares about itself
WEIGHT_PATTERNS = ("*.safetensors", "*.bin")  # the second only if there are none of the first
# Documentation, weights of other frameworks, traces of training, temporary files left by a killed process, and a
# floor, which is a model of its own.
IGNORED = (
    *("training/*", "runs/*", "floor/*", "checkpoint-*/*", "onnx/*", "openvino/*", "coreml/*", "original/*"),
    *("*.md", ".*", "*/.*", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.png", "*.pt", "training_args.bin", "*.pyc"),
    "*.part",
)


def model_files(folder: Path) -> list[Path]:
    """Return all files that answers may depend on, sorted by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if not any(fnmatch(path.relative_to(folder).as_posix(), p) for p in IGNORED)]


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files among the model's files."""
    return [path for path in model_files(folder) if any(path.match(pattern) for pattern in WEIGHT_PATTERNS)]


def fingerprint(folder: Path) -> str:
    """Return the `sha256:` digest of the names and bytes of weights, configuration and tokenizer, streaming the files.

    An irrelevant change costs one recomputation; a missed one would return another model's scores. So every file counts
    except documentation, lists of examples, and a held-out score, which may be added later.
    """
    digest = hashlib.sha256()
    for path in model_files(folder):
        if path == folder / SEEN_FILE:
            continue
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        if path == folder / DECLARATION:
            digest.update(hashlib.sha256(without_score(path.read_bytes())).digest())
            continue
        digest.update(digest_of_file(path))
    return f"sha256:{digest.hexdigest()}"


def without_score(declared: bytes) -> bytes:
    """Return figeval.json as it was before the model's held-out score was added; unchanged if it has none."""
    try:
        content = parse_json(declared)
        del content["about"]["held_out"]
    except (ValueError, KeyError, TypeError):
        return declared
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()  # the format in which training writes it


# ---- the model hub ---------------------------------------------------------------------------------------------------


class NotOnHub(ModelError):
    """The model hub has no such repository, or the user has no access to it."""


def hub_file(model: str, name: str, revision: str | None) -> Path | None:
    """Return one file of a hub repository from the cache or the hub; None if there is none or the hub is unreachable.

    Raises:
        ModelError: the hub has no such model or revision, or denies access to it.
        MissingPackage: the extra for models on this machine is not installed.
    """
    for module in ("transformers", "huggingface_hub"):  # the second alone, of another extra, would be of no use
        require(module, f"model {model!r}", extra="hf")
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    path = try_to_load_from_cache(model, name, revision=revision)
    if isinstance(path, str):
        return Path(path)
    if path is not None or unreachable():  # not None: the cache remembers that there is no such file
        return None
    return ask_hub(model, partial(hf_hub_download, model, name, revision=revision))


@lru_cache(maxsize=1)
def unreachable() -> str:
    """Return why the hub cannot be reached, or "" if it can. The hub's own client would retry for half a minute."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        httpx.head(constants.ENDPOINT, timeout=10)
    except httpx.HTTPError as error:
        return f"{constants.ENDPOINT}: {' '.join(str(error).split()) or type(error).__name__}"
    return ""


def ask_hub(model: str, call: Callable[[], str]) -> Path | None:
    """Return the path that a download returns, or None if the repository has no such file.

    Raises:
        ModelError: the hub refuses; each reason has a message of its own.
    """
    from huggingface_hub import errors

    try:
        return Path(call())
    except errors.GatedRepoError as error:
        raise ModelError(f"{model!r} is gated: accept its terms on the hub, then run `hf auth login`") from error
    except errors.RepositoryNotFoundError as error:
        raise NotOnHub(f"the model hub has no {model!r}; if it is private: `hf auth login`") from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"the hub has {model!r}, but not that revision; leave revision= out") from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelError(f"the hub did not answer when asked for {model!r}; try again, or give a folder") from error
    except errors.EntryNotFoundError:
        return None


def download(model: str, revision: str | None) -> Path:
    """Return the folder with all model files of a hub repository, downloading those that are not cached.

    Raises:
        ModelError: the hub denies access, or the repository holds no weights.
    """
    from huggingface_hub import snapshot_download

    fetch = partial(snapshot_download, model, revision=revision, ignore_patterns=list(IGNORED))
    for weights in WEIGHT_PATTERNS:
        folder = ask_hub(model, partial(fetch, allow_patterns=[*PATTERNS, weights]))
        if folder is not None and any(weight_files(folder)):
            return folder
    reason = unreachable()
    location = f"in the hub's cache, and the hub is unreachable ({reason})" if reason else "on the hub for PyTorch"
    raise ModelError(f"{model!r} has no weights (*.safetensors or *.bin) {location}; give a folder that has them")
