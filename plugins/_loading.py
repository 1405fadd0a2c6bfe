"""Weights from a folder to a device: in the precision asked for, silently, and never with random numbers in them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError

from ._checkpoint import Checkpoint

if TYPE_CHECKING:
    from ._neural import Setup

# Buffers that older versions of transformers stored and newer ones compute.
COMPUTED = re.compile(r"(^|\.)(position_ids|token_type_ids|inv_freq|(attn|attention)\.(masked_)?bias)$")
HALVES = ("float16", "bfloat16")
UNLIMITED = 1_000_000  # tokenizers write 10**30 where they know of no limit


def choose_device(name: str | None) -> str:
    """The device to use: the one named, or the first of cuda, mps and cpu that is there.

    Raises:
        ModelError: torch does not know it, or the machine does not have it.
    """
    import torch

    if name in (None, "", "auto"):
        return next((kind for kind in ("cuda", "mps") if is_available(kind)), "cpu")
    try:
        device = torch.device(str(name))
    except RuntimeError as error:
        raise ModelError(f"device={name} is no device that torch knows; use cpu, cuda, cuda:1 or mps") from error
    if not is_available(device.type) or (device.index or 0) >= max(1, device_count(device.type)):
        raise ModelError(f"device={name} is not there on this machine; leave --device out, or use cpu")
    return str(device)


def is_available(kind: str) -> bool:
    """Whether torch can compute on this kind of device here."""
    import torch

    if kind == "cpu":
        return True
    module = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return bool(module is not None and hasattr(module, "is_available") and module.is_available())


def device_count(kind: str) -> int:
    """How many devices of a kind there are; 1 where torch does not count them."""
    import torch

    count = getattr(getattr(torch, kind, None), "device_count", None)
    return int(count()) if count is not None else 1


def choose_dtype(asked: str, checkpoint: Checkpoint, device: str) -> str:
    """The precision to load in; "auto" is float32 on a CPU, elsewhere what the weights are stored in.

    Raises:
        ModelError: half precision on a CPU.
    """
    if asked in HALVES and device == "cpu":
        raise ModelError(f"dtype={asked} on a CPU is less exact and mostly far slower; use dtype=float32 or a GPU")
    if asked != "auto" or device == "cpu":
        return "float32" if asked == "auto" else asked
    return str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "float32")


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no reports from the model libraries while a model is loaded; errors still raise."""
    from transformers.utils import logging as reports

    verbosity, bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
    reports.set_verbosity_error()
    reports.disable_progress_bar()
    try:
        yield
    finally:
        reports.set_verbosity(verbosity)
        if bars:
            reports.enable_progress_bar()


@contextmanager
def hushed() -> Iterator[None]:
    """No reports from lm-eval either: what it warns of is in our records."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with quiet():
            yield
    finally:
        logger.setLevel(level)


def load_model(auto: Any, setup: Setup[Any], *, spare: str = "", **changes: Any) -> Any:
    """The model in evaluation mode; `auto` is a transformers Auto class, `changes` are of its configuration.

    `spare` names modules that may be missing from the checkpoint because nothing reads them (a pooler).

    Raises:
        ModelError: the class does not fit, or the checkpoint lacks weights that would then be random numbers.
    """
    import torch

    checkpoint = setup.checkpoint
    folder = checkpoint.folder_here()
    options = {"dtype": getattr(torch, setup.dtype), "trust_remote_code": setup.settings.trust_remote_code}
    try:
        with quiet():
            model, report = auto.from_pretrained(folder, output_loading_info=True, **options, **changes)
    except load_errors() as error:
        raise ModelError(f"{checkpoint.model!r} cannot be loaded by {auto.__name__}: {one_line(error)}") from error
    check_weights(model, report, checkpoint.model, checkpoint.architecture or "something else", spare)
    return model.to(setup.device).eval()


def check_weights(model: Any, report: Mapping[str, Any], name: str, saved_as: str, spare: str = "") -> None:
    """Compare a loaded model with the weights of its checkpoint; `report` is transformers' `output_loading_info`.

    Weights outside of the model's body may be left over: a head that this architecture does not have, a pooler. What
    belongs into the body and finds no place there (a layer that the config does not count, an adapter that was never
    merged) makes it another model than the one that was saved.

    Raises:
        ModelError: weights are missing, which would be random numbers, or some of the body are left over.
    """
    missing = sorted(key for key in report["missing_keys"] if not spare or spare not in key)
    if missing:
        raise ModelError(
            f"{name!r} has no weights for {missing[0]} ({len(missing)} missing), which would be random; it was saved "
            f"as {saved_as}: use the backend for that"
        )
    body = model.base_model
    parts = {name for name, _ in body.named_children()}
    inside = (key.removeprefix(f"{body.base_model_prefix}.") for key in report["unexpected_keys"])
    left = sorted(key for key in inside if key.partition(".")[0] in parts and not COMPUTED.search(key))
    if left:
        raise ModelError(
            f"{name!r} has weights that its config.json does not account for: {left[0]} ({len(left)} unexpected), so "
            "another model would be scored; correct config.json (the number of layers?), or save the model again"
        )


def load_tokenizer(checkpoint: Checkpoint, *, trust: bool) -> Any:
    """The tokenizer of a checkpoint.

    Raises:
        ModelError: there is none, or it is none of the fast ones (which say where in the text a token lies).
    """
    from transformers import AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder_here(), trust_remote_code=trust)
    except load_errors() as error:
        raise ModelError(f"{checkpoint.model!r} has no tokenizer that can be loaded: {one_line(error)}") from error
    if not tokenizer.is_fast:
        raise ModelError(f"{checkpoint.model!r} has no tokenizer.json; save it with a fast tokenizer of transformers")
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes up where there are no files
        raise ModelError(f"{checkpoint.model!r} has no tokenizer files; save its tokenizer into the same folder")
    return tokenizer


def positions(model: Any) -> int | None:
    """How many tokens the model has positions for, None where nothing bounds it.

    RoBERTa and MPNet count positions from `padding_idx + 1`: 514 rows of their table are 512 positions.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(module, "num_embeddings"):
            return int(module.num_embeddings) - (0 if module.padding_idx is None else module.padding_idx + 1)
    declared = getattr(model.config, "max_position_embeddings", None)
    return int(declared) if declared and declared > 0 else None


def input_limit(asked: int | None, declared: int | None, model: Any) -> int | None:
    """The longest input in tokens: what was asked for, else what the tokenizer declares, never more than positions.

    Raises:
        ModelError: more was asked for than the model has positions.
    """
    most = positions(model)
    if asked is not None:
        if most is not None and asked > most:
            raise ModelError(f"max_length={asked}: the model has positions for {most} tokens; use that or less")
        return asked
    known = [limit for limit in (declared, most) if limit is not None and limit < UNLIMITED]
    return min(known, default=None)


def load_errors() -> tuple[type[Exception], ...]:
    """What the model libraries raise for files that are missing, damaged or not theirs."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    files = (OSError, EOFError, SafetensorError, UnpicklingError)
    return (*files, ValueError, ImportError, RuntimeError, KeyError, AttributeError, TypeError)


def one_line(error: BaseException) -> str:
    """The beginning of an exception's text, in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def parameters(model: Any) -> int:
    """How many weights a model has, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
