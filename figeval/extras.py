"""Packages that the core does without, each with the extra that installs it, and the error that names the cure.

Code imports such a package where it needs it, without a check. The command line, `foreign_code` (which runs models,
metrics and hooks) and public functions turn the failed import into a `MissingPackage`. Only where a purpose helps, or
the import would come too late, does code say `needed_for` or `require` itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from figeval.errors import MissingPackage

# The extra of each module; a test compares them with pyproject.toml.
EXTRAS = {
    module: extra
    for extra, modules in {
        "hf": "torch transformers tokenizers safetensors sentence_transformers accelerate lm_eval evaluate",
        "analysis": "altair vl_convert pyphen",
        "annotate": "starlette uvicorn",
        "bertscore": "bert_score",
        "constrain": "xgrammar",
        "deepspeed": "deepspeed",
        "hub": "datasets huggingface_hub",
        "impli": "lemminflect",
        "lora": "peft",
        "notebook": "pandas",
        "parquet": "pyarrow",
        "ray": "ray",
        "spacy": "spacy",
        "storal": "RAKE",
        "vllm": "vllm",
        "xlsx": "openpyxl",
        "zh": "jieba",
    }.items()
    for module in modules.split()
}


def missing_package(error: BaseException, purpose: str = "") -> MissingPackage | None:
    """Return the error that says how to install what an import has missed, or None if it is no package of an extra."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    return MissingPackage(module, EXTRAS[module], purpose) if module in EXTRAS else None


@contextmanager
def needed_for(purpose: str = "") -> Iterator[None]:
    """Raise `MissingPackage` if an import fails because an extra is not installed; also a decorator of functions.

    Args:
        purpose: what needs the package, such as a flag or a file; it begins the message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        explained = missing_package(error, purpose)
        if explained is None:
            raise
        raise explained from error


def require(module: str, purpose: str = "", *, alternative: str = "", extra: str = "") -> None:
    """Raise `MissingPackage` now if a package of an extra is not installed, before it is imported.

    Args:
        module: the package.
        purpose: what needs it, such as a flag or a file; it begins the message.
        alternative: what helps as well, e.g. `start a server`; it ends the message.
        extra: the extra to name if several install the package; by default that of the table.
    """
    if find_spec(module) is None:
        raise MissingPackage(module, extra or EXTRAS[module], purpose, alternative)
