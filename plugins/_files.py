"""Which files of a checkpoint its answers depend on, and a digest of them."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatch
from pathlib import Path

NEEDED = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
SEEN = "seen.txt"  # what it was trained on, which no answer depends on
WEIGHTS = ("*.safetensors", "*.bin")  # the second only where there is none of the first
# Documentation, weights of other frameworks, traces of training.
IGNORED = (
    *("training/*", "*.md", ".*", "*/.*", "onnx/*", "openvino/*", "coreml/*", "original/*", "checkpoint-*/*", "runs/*"),
    *("*.h5", "*.msgpack", "*.ot", "*.onnx", "*.png", "*.pt", "training_args.bin", "*.pyc"),
)


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
    counts that is not documentation, or a list of examples that may be added later.
    """
    digest = hashlib.sha256()
    for path in model_files(folder):
        if path == folder / SEEN:
            continue
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"
