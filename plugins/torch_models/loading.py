"""Loading of models with weights: device, precision, complete weights, and the life cycle of a network.

`prepare` settles everything that can be known before weights are loaded. `load_model` and `load_tokenizer` load without
console output and never leave random weights in a model. `Neural` is the base class of all torch backends: weights are
loaded on first use, described in the record, fingerprinted and released.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partialmethod
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from figeval.errors import ModelError
from figeval.io.observer import report_loading
from figeval.models.devices import avoid_cudnn_attention
from figeval.types import JSON

from .batching import TokenBudget, release_memory
from .checkpoint import Checkpoint
from .faults import load_errors, one_line
from .merging import Loaded, load_weights
from .overlapping import Fetch, Prepare, Start, Started, on_device, run_steps
from .reading import ModelTexts, Read, read_texts
from .settings import Settings
from .unpadded import describe_padding, read_without_padding

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

# Buffers that older versions of transformers stored and newer ones compute.
COMPUTED_BUFFERS = re.compile(r"(^|\.)(position_ids|token_type_ids|inv_freq|(attn|attention)\.(masked_)?bias)$")
HALVES = ("float16", "bfloat16")
MAX_LIMIT = 1_000_000  # tokenizers declare 10**30 if they know of no limit
ABOUT_KEY = "about"  # a key of figeval.json
S = TypeVar("S", bound=Settings)
N = TypeVar("N")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelSetup(Generic[S]):
    """Everything that is settled before weights are loaded."""

    settings: S
    checkpoint: Checkpoint
    device: str
    dtype: str


def prepare(settings: S, checkpoint: Checkpoint) -> ModelSetup[S]:
    """Settle device and precision.

    Raises:
        ModelError: the device is not available, or half precision was requested on a CPU.
    """
    report_loading()  # choosing a device imports torch
    device = choose_device(settings.device)
    avoid_cudnn_attention()
    return ModelSetup(settings, checkpoint, device, choose_dtype(settings.dtype, checkpoint, device))


def choose_device(name: str | None) -> str:
    """Return the named device, or the first available of cuda, mps and cpu.

    Raises:
        ModelError: torch does not know the device, or the machine does not have it.
    """
    import torch

    if name in (None, "", "auto"):
        return next((kind for kind in ("cuda", "mps") if is_available(kind)), "cpu")
    try:
        device = torch.device(str(name))
    except RuntimeError as error:
        raise ModelError(f"device={name} is not a device that torch knows; use cpu, cuda, cuda:1 or mps") from error
    if not is_available(device.type) or (device.index or 0) >= max(1, device_count(device.type)):
        raise ModelError(f"device={name} is not available on this machine; leave out --device, or use cpu")
    return str(device)


def is_available(kind: str) -> bool:
    """Return whether torch can compute on this kind of device on this machine."""
    import torch

    if kind == "cpu":
        return True
    module = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return bool(module is not None and hasattr(module, "is_available") and module.is_available())


def is_accelerator(device: str) -> bool:
    """Return whether a device computes beside the CPU."""
    return device.partition(":")[0] != "cpu"


def device_count(kind: str) -> int:
    """Return the number of devices of a kind; 1 if torch does not count them."""
    import torch

    count = getattr(getattr(torch, kind, None), "device_count", None)
    return int(count()) if count is not None else 1


def choose_dtype(dtype: str, checkpoint: Checkpoint, device: str) -> str:
    """Return the precision to load in; "auto" is float32 on a CPU, elsewhere that of the stored weights.

    Raises:
        ModelError: half precision on a CPU.
    """
    if dtype in HALVES and device == "cpu":
        raise ModelError(f"dtype={dtype} is less precise and usually far slower on a CPU; use dtype=float32 or a GPU")
    if dtype != "auto" or device == "cpu":
        return "float32" if dtype == "auto" else dtype
    return str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "float32")


@contextmanager
def suppress_logging(*libraries: str, errors: bool = False) -> Iterator[None]:
    """Suppress the reports and progress bars of transformers in this context; exceptions still propagate.

    `libraries` names further loggers, e.g. lm-eval's, whose warnings are in our records. With `errors`, their errors
    are suppressed too: some models of lm-eval draw a progress bar although told not to, and log what they raise.
    """
    from tqdm.std import tqdm
    from transformers.utils import logging as reports

    verbosity, bars, begin = reports.get_verbosity(), reports.is_progress_bar_enabled(), tqdm.__init__
    levels = {logger: logger.level for logger in map(logging.getLogger, libraries)}
    reports.set_verbosity_error()
    reports.disable_progress_bar()
    for logger in levels:
        logger.setLevel(logging.CRITICAL if errors else logging.ERROR)
    if errors:
        tqdm.__init__ = partialmethod(begin, disable=True)
    try:
        yield
    finally:
        tqdm.__init__ = begin
        for logger, level in levels.items():
            logger.setLevel(level)
        reports.set_verbosity(verbosity)
        if bars:
            reports.enable_progress_bar()


def load_model(
    auto: type[_BaseAutoModelClass], setup: ModelSetup[S], *, spare: str = "", **changes: object
) -> PreTrainedModel:
    """Load a model in evaluation mode.

    Args:
        auto: Auto class of transformers.
        setup: checkpoint, device and precision.
        spare: name of modules that may be missing from the checkpoint because nothing reads them, e.g. a pooler.
        changes: changed entries of the configuration.

    Raises:
        ModelError: the class does not fit, or the checkpoint lacks weights, which would be random.
    """
    import torch

    checkpoint = setup.checkpoint
    options = {"dtype": getattr(torch, setup.dtype), "trust_remote_code": setup.settings.trust_remote_code, **changes}

    def load() -> Loaded:
        model, report = auto.from_pretrained(checkpoint.folder_here(), output_loading_info=True, **options)
        return model.to(setup.device), report

    try:
        with suppress_logging():
            loaded, report = load_weights(checkpoint, load, loader=f"{auto.__name__} {options} {setup.device}")
    except load_errors() as error:
        raise ModelError(f"{checkpoint.model!r} cannot be loaded by {auto.__name__}: {one_line(error)}") from error
    model = cast("PreTrainedModel", loaded)
    check_weights(model, report, checkpoint.model, checkpoint.architecture or "something else", spare)
    if is_accelerator(setup.device):
        read_without_padding(model)
    return model.eval()


def check_weights(
    model: PreTrainedModel, report: Mapping[str, Collection[str]], name: str, saved_as: str, spare: str = ""
) -> None:
    """Compare a loaded model with the weights of its checkpoint; `report` is transformers' `output_loading_info`.

    Weights outside the model's body may be left over: a head that this architecture does not have, a pooler. Left-over
    weights of the body (a layer that the config does not count, an adapter that was never merged) mean that the loaded
    model is not the one that was saved.

    Raises:
        ModelError: weights are missing, which would be random, or some of the body are left over.
    """
    missing = sorted(key for key in report["missing_keys"] if not spare or spare not in key)
    if missing:
        raise ModelError(
            f"{name!r} has no weights for {missing[0]} ({len(missing)} missing), which would be random; it was saved "
            f"as {saved_as}: use the backend for that"
        )
    body = model.base_model
    parts = {name for name, _ in body.named_children()}
    body_keys = (key.removeprefix(f"{body.base_model_prefix}.") for key in report["unexpected_keys"])
    unexpected = sorted(key for key in body_keys if key.partition(".")[0] in parts and not COMPUTED_BUFFERS.search(key))
    if unexpected:
        raise ModelError(
            f"{name!r} has weights that its config.json does not account for: {unexpected[0]} "
            f"({len(unexpected)} unexpected), so another model would be scored; correct config.json "
            "(the number of layers?), or save the model again"
        )


def load_tokenizer(checkpoint: Checkpoint, *, trust: bool) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint.

    Raises:
        ModelError: there is no tokenizer, or it is not a fast one (only those give the tokens' places in the text).
    """
    from transformers import AutoTokenizer

    try:
        with suppress_logging():
            tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder_here(), trust_remote_code=trust)
    except load_errors() as error:
        raise ModelError(f"{checkpoint.model!r} has no tokenizer that can be loaded: {one_line(error)}") from error
    if not tokenizer.is_fast:
        raise ModelError(f"{checkpoint.model!r} has no tokenizer.json; save it with a fast tokenizer of transformers")
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes this up if there are no files
        raise ModelError(f"{checkpoint.model!r} has no tokenizer files; save its tokenizer into the same folder")
    return tokenizer


def positions(model: PreTrainedModel) -> int | None:
    """Return the number of positions of the model, or None if nothing bounds it.

    RoBERTa and MPNet count positions from `padding_idx + 1`: 514 rows of their table are 512 positions.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(module, "num_embeddings"):
            return int(module.num_embeddings) - (0 if module.padding_idx is None else module.padding_idx + 1)
    declared = getattr(model.config, "max_position_embeddings", None)
    return int(declared) if declared and declared > 0 else None


def input_limit(max_length: int | None, declared: int | None, model: PreTrainedModel) -> int | None:
    """Return the longest input in tokens: the value asked for, else the tokenizer's, at most the model's positions.

    Raises:
        ModelError: the value asked for exceeds the model's positions.
    """
    available = positions(model)
    if max_length is not None:
        if available is not None and max_length > available:
            raise ModelError(
                f"max_length={max_length} exceeds the model's {available} positions; use {available} or less"
            )
        return max_length
    limits = [limit for limit in (declared, available) if limit is not None and limit < MAX_LIMIT]
    return min(limits, default=None)


def parameters(model: Module) -> int:
    """Return the number of weights of a model, counting tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with its tokenizer, and the most tokens of an input; None for any number."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    limit: int | None


def load_with_tokenizer(auto: type[_BaseAutoModelClass], setup: ModelSetup[S], *, spare: str = "") -> LoadedModel:
    """Load a model with its tokenizer. Arguments and errors are those of `load_model`."""
    tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
    model = load_model(auto, setup, spare=spare)
    return LoadedModel(model, tokenizer, input_limit(setup.settings.max_length, tokenizer.model_max_length, model))


class Neural(ABC, Generic[S, N]):
    """Base class of torch backends. Subclasses define how the network is loaded and which details are recorded.

    Attributes:
        setup: settings, checkpoint, device and precision.
        budget: size of a batch.
        overlap: whether batches are prepared, computed and fetched at the same time: on accelerators, not on a CPU.
        warnings: for the record.
    """

    def __init__(self, setup: ModelSetup[S]) -> None:
        self.setup = setup
        self.budget = TokenBudget.on(setup.device.partition(":")[0], setup.settings.rows)
        self.overlap = is_accelerator(setup.device)
        self.warnings: list[str] = []

    @abstractmethod
    def load(self) -> N:
        """Load the network with its weights on the device."""

    @abstractmethod
    def details(self, network: N) -> JSON:
        """Return the record's details of a loaded network."""

    @cached_property
    def network(self) -> N:
        """The network, loaded and checked on first use."""
        vars(self)["network"] = network = self.load()  # there already, because `check` may ask the model
        warnings = (*self.setup.checkpoint.warnings, *self.check())
        self.warnings += [warning for warning in warnings if warning not in self.warnings]
        return network

    def with_network(self, network: N) -> Self:
        """Use a network that is loaded already, such as one in training, and return the backend."""
        vars(self)["network"] = network
        return self

    def check(self) -> list[str]:
        """Return warnings about the loaded model, for the record; by default there are none."""
        return []

    def read_texts(self, inputs: ModelTexts, start: Start[Started], fetch: Fetch[Started, T]) -> Read[T]:
        """Tokenize texts and read them in batches; `start` and `fetch` as for the function `read_texts`."""
        return read_texts(inputs, start, fetch, self.budget, self.setup.device, overlap=self.overlap)

    def read_batches(
        self, lengths: Sequence[int], prepare: Prepare, start: Start[Started], fetch: Fetch[Started, T]
    ) -> list[T]:
        """Read inputs in batches, and return one result per input.

        Args:
            lengths: tokens per input, or what else it adds to the size of a batch.
            prepare: returns inputs, given their indexes, as tensors on the CPU.
            start: starts the computation for a batch, given its tensors on the device and the indexes of its inputs.
            fetch: waits for what was started and returns one result per input, given their indexes.

        Raises:
            ModelError: memory runs out and the budget cannot be halved.
        """
        steps = on_device(prepare, start, fetch, self.setup.device)
        return cast("list[T]", run_steps(lengths, steps, self.budget, overlap=self.overlap))  # none is left out

    @cached_property
    def _fingerprint(self) -> str:
        return self.setup.checkpoint.fingerprint()

    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and tokenizer."""
        return self._fingerprint

    def source(self) -> str:
        """Return the folder with the model's files, an adapter's without its base, downloading them if necessary."""
        return str(self.setup.checkpoint.source())

    def describe(self) -> JSON:
        """Return the model's description for the record.

        Class, size and limit are included once the model is loaded; for a model that figeval trained, so is its
        training.
        """
        setup = self.setup
        description: JSON = {"device": setup.device, "dtype": setup.dtype}
        details = self.details(self.network) if "network" in vars(self) else {}
        about = {name: value for name, value in setup.checkpoint.declared.items() if name == ABOUT_KEY}
        warnings = {"warnings": self.warnings} if self.warnings else {}
        return description | setup.checkpoint.describe_adapter() | details | self.budget.describe() | about | warnings

    def close(self) -> None:
        """Release the weights; they are loaded again when needed."""
        vars(self).pop("network", None)
        release_memory()


def measures(model: Module, limit: int | None) -> JSON:
    """Return the class, number of weights and longest input of a model, and whether it has read padded rows."""
    description: JSON = {"class": type(model).__name__, "parameters": parameters(model), "max_length": limit}
    return description | describe_padding(model)
