"""Adapters merged into their base in memory, and bases that are shared by the adapters opened one after the other.

A base is loaded once and kept. Every adapter gets modules of its own around the tensors of the base, and copies of the
matrices that it changes, into which peft merges it. The base itself is never written to, so adapters do not depend on
those before them, and give the scores of a model that peft merged and saved.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from warnings import catch_warnings, simplefilter

from figeval.errors import ModelError
from figeval.types import JSON

from .adapter_patterns import expand_patterns
from .adapters import ADAPTER_CONFIG, ADAPTER_NAME, TOKENIZER, WRAPPED, weights_file
from .batching import free_memory, release_memory
from .checkpoint import Checkpoint
from .faults import load_errors, one_line

if TYPE_CHECKING:
    from peft import PeftConfig
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel

MAX_RANK = 65_536  # far more than any; matrices of a wrong one would be allocated before they are compared
KEPT_SHARE = 4  # a base is kept if the originals of changed matrices need at most one fourth of the free memory
Report: TypeAlias = Mapping[str, Any]  # transformers' `output_loading_info`
Loaded: TypeAlias = "tuple[Module, Report]"


@dataclass
class BaseModels:
    """The base that was loaded last, by a key of all that its weights depend on."""

    bases: dict[str, Loaded] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def copy_of(self, key: str, load: Callable[[], Loaded]) -> Loaded:
        """Return a model around the tensors of a base, which is loaded unless it is the one that was loaded last."""
        with self.lock:
            if key not in self.bases:
                self.bases.clear()
                release_memory()
                self.bases[key] = load()
            model, report = self.bases[key]
        tensors = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
        return copy.deepcopy(model, tensors), report

    def forget(self) -> None:
        """Release the base."""
        with self.lock:
            self.bases.clear()


BASES = BaseModels()


def load_weights(checkpoint: Checkpoint, load: Callable[[], Loaded], *, loader: str) -> Loaded:
    """Load a model, with its adapter merged into it if it has one.

    Args:
        checkpoint: the checkpoint.
        load: loads the model from `checkpoint.folder_here()`, for an adapter without it.
        loader: all that the loaded model depends on besides the checkpoint: class, precision, device …

    Returns:
        The model, and transformers' report on its weights; those that the adapter brought are not missing.

    Raises:
        ModelError: the adapter does not fit its base, or its weights are damaged.
    """
    if checkpoint.base is None:
        BASES.forget()  # there may be no memory for both
        return load()
    files = checkpoint.digest_beside_base()
    key = json.dumps([checkpoint.base.fingerprint(), checkpoint.config, files, loader], sort_keys=True)
    model, report = BASES.copy_of(key, load)
    names = merge(inner_model(model), checkpoint)
    missing = [name for name in report.get("missing_keys", ()) if name not in names]
    return model, {**report, "missing_keys": missing}


def inner_model(model: Module) -> PreTrainedModel:
    """Return the transformers model in a model of sentence-transformers, any other model as it is."""
    first = next(iter(model.children()), None)
    inner: PreTrainedModel = getattr(first, "auto_model", model)
    return inner


def merge(model: PreTrainedModel, checkpoint: Checkpoint) -> frozenset[str]:
    """Merge an adapter into a model that shares its tensors with a base, and return the names of replaced weights.

    Raises:
        ModelError: the adapter does not fit the model, or its weights are damaged.
    """
    name = checkpoint.model
    try:
        weights = read_weights(weights_file(checkpoint.adapter_folder()))
        with catch_warnings():
            simplefilter("ignore")  # peft's advice for those who train or save
            names = _merge(model, weights, checkpoint.adapter)
        _check_tokenizer(model, checkpoint.adapter_folder())
        return names
    except load_errors() as error:
        base = checkpoint.base.model if checkpoint.base is not None else ""
        raise ModelError(f"the adapter {name!r} cannot be merged into its base {base!r}: {one_line(error)}") from error


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the weights of an adapter by their names in the model. No code of a pickle is run.

    Raises:
        ValueError: weights are not finite, or the file holds something else.
    """
    import torch

    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        stored: Any = load_file(file)
    else:
        stored = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(stored, dict) or not all(isinstance(weight, torch.Tensor) for weight in stored.values()):
        raise ValueError(f"{file.name} holds no weights by name")
    for name, weight in stored.items():
        if not weight.isfinite().all():
            raise ValueError(f"{file.name}: {name} has numbers that are not finite")
    return {str(name).removeprefix(WRAPPED): weight for name, weight in stored.items()}


def _merge(model: PreTrainedModel, weights: dict[str, Tensor], adapter: JSON) -> frozenset[str]:
    from peft.mapping import PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
    from peft.utils.save_and_load import set_peft_model_state_dict

    config = _config_of(adapter)
    prefix = PEFT_TYPE_TO_PREFIX_MAPPING[config.peft_type]
    host = _host_of(model, [name for name in weights if f".{prefix}" in name], prefix)
    weights = {name: weight for name, weight in weights.items() if host.has_part(name)}
    full_names = {name for name in weights if f".{prefix}" not in name}
    _resize_embeddings(model, {host.name_in_model(name): len(weights[name]) for name in full_names})
    _copy_changed(host.module, weights)
    targets = dict(host.module.named_parameters())
    values = {name: _as_target(weight, targets.get(name), model) for name, weight in weights.items()}
    config.modules_to_save = _modules_of(full_names, config.modules_to_save or ())
    ranks = _take_ranks(config)
    expand_patterns(config, [name for name, _ in host.module.named_modules() if name])
    kind: Any = PEFT_TYPE_TO_TUNER_MAPPING[config.peft_type]
    tuner = kind(host.module, config, ADAPTER_NAME, low_cpu_mem_usage=not ranks)
    if ranks:
        tuner.resize_modules_by_rank_pattern(ranks, ADAPTER_NAME)
    result = set_peft_model_state_dict(host.module, values, ADAPTER_NAME, low_cpu_mem_usage=True)
    _check_names(result.missing_keys, result.unexpected_keys, prefix)
    tuner.merge_and_unload(safe_merge=True)
    model.eval()
    return frozenset(host.name_in_model(name).replace(".base_layer.", ".") for name in full_names)


def _config_of(adapter: JSON) -> PeftConfig:
    """Return peft's configuration of an adapter.

    Raises:
        ValueError: it sets an option that the installed peft does not know.
    """
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    kind: Any = PEFT_TYPE_TO_CONFIG_MAPPING[adapter["peft_type"]]
    names = set(inspect.signature(kind).parameters)
    for name, value in adapter.items():
        if name not in names and value:
            raise ValueError(f"{ADAPTER_CONFIG} has the option {name!r:.40}, which the installed peft does not know")
    pattern = dict(adapter.get("rank_pattern") or {}).values()
    ranks = [adapter.get("r", 1), *(len(rank) if isinstance(rank, list) else rank for rank in pattern)]
    if not all(isinstance(rank, int) and 0 <= rank <= MAX_RANK for rank in ranks):
        raise ValueError(f"{ADAPTER_CONFIG} has a rank that is no integer up to {MAX_RANK}")
    values = {name: value for name, value in adapter.items() if name in names}
    config: PeftConfig = kind(**values)
    config.inference_mode = True
    if hasattr(config, "init_lora_weights"):
        config.init_lora_weights = True  # nothing is computed for values that are read from the file
    return config


def _take_ranks(config: PeftConfig) -> dict[str, list[bool]]:
    """Return which ranks of each matrix a trained AdaLoRA has left, by name, and remove them from its configuration.

    peft would look for them in a model of its own when it reads the weights.
    """
    if config.peft_type != "ADALORA":
        return {}
    ranks: dict[str, list[bool]] = config.rank_pattern or {}
    config.rank_pattern = None
    return ranks


# ---- where the names of an adapter's weights belong ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """The module in which an adapter's weights have the names of its file.

    Attributes:
        module: the model itself, its body, or a parent of the body like the one that the adapter was trained in.
        added: prefix of its names that names of the model do not have.
        lacking: prefix of the model's names that its names do not have.
    """

    module: Module
    added: str = ""
    lacking: str = ""

    def name_in_model(self, name: str) -> str:
        return self.lacking + name.removeprefix(self.added)

    def has_part(self, name: str) -> bool:
        """Return whether a name begins with a part of the host; a head may be left over, as in whole models."""
        return name.partition(".")[0] in dict(self.module.named_children())


def _host_of(model: PreTrainedModel, names: Sequence[str], prefix: str) -> Host:
    """Return the module in which an adapter was trained: the model, its body alone, or its body below another head.

    Raises:
        ValueError: the model has none of the modules.
    """
    from torch.nn import Module

    body_name = model.base_model_prefix
    parent = Module()
    parent.add_module(body_name or "body", model)
    hosts = [Host(model), Host(parent, added=f"{body_name}.")]
    if isinstance(body := getattr(model, body_name, None), Module):
        hosts.append(Host(body, lacking=f"{body_name}."))
    adapted = [name.rpartition(f".{prefix}")[0] for name in names]
    if not adapted:
        raise ValueError("it has no weights of an adapter")
    for host in hosts:
        if {*adapted} <= {name for name, _ in host.module.named_modules()}:
            return host
    modules = {name for name, _ in model.named_modules()}
    strange = next((name for name in adapted if name not in modules), adapted[0])
    raise ValueError(f"a {type(model).__name__} has no module {strange!r:.200}")


def _modules_of(names: Iterable[str], candidates: Iterable[str]) -> list[str] | None:
    """Return the modules that were trained whole among `modules_to_save`, by the names of their weights."""
    parts = {part for name in names for part in _prefixes(name)} | {part for name in names for part in name.split(".")}
    return sorted({*candidates} & parts) or None


def _prefixes(name: str) -> Iterator[str]:
    """Yield the names of the modules around a weight, from the innermost on."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _check_names(missing: Iterable[str], unexpected: Sequence[str], prefix: str) -> None:
    """Check that all weights of an adapter found their place, and every place its weights.

    Raises:
        ValueError: otherwise.
    """
    if unexpected:
        raise ValueError(f"the base has no place for {unexpected[0]} ({len(unexpected)} unexpected)")
    parts = f".{prefix}", ".modules_to_save."
    lacking = [name for name in missing if any(part in name for part in parts)]
    if lacking:
        raise ValueError(f"it has no weights for {lacking[0]} ({len(lacking)} missing)")


# ---- tensors of the model that are its own ---------------------------------------------------------------------------


def _copy_changed(host: Module, names: Iterable[str]) -> None:
    """Give the model copies of the tensors that an adapter changes; all others remain those of the base."""
    from torch.nn import Parameter

    modules = dict(host.named_modules())
    changed = {next(part for part in _prefixes(name) if part in modules): None for name in names}
    parameters = {
        (id(module), name): (module, name, parameter)
        for path in changed
        for module in modules[path].modules()
        for name, parameter in module.named_parameters(recurse=False)
    }
    size = sum(parameter.nbytes for _, _, parameter in parameters.values())
    device = str(next(host.parameters()).device)
    if size * KEPT_SHARE > free_memory(device):
        BASES.forget()
    while parameters:  # one by one, so that originals which nobody keeps are released
        _, (module, name, parameter) = parameters.popitem()
        setattr(module, name, Parameter(parameter.detach().clone(), requires_grad=False))
        del parameter


def _resize_embeddings(model: PreTrainedModel, rows: Mapping[str, int]) -> None:
    """Give the model as many tokens as the adapter's embeddings have, if it has them; `rows` are of whole weights."""
    from torch.nn import Parameter

    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    name = next((name for name, module in model.named_modules() if module is inputs), "")
    tokens = rows.get(f"{name}.weight", inputs.num_embeddings)
    if tokens == inputs.num_embeddings:
        return
    is_tied = outputs is not None and outputs.weight is inputs.weight
    inputs.weight = Parameter(inputs.weight.detach().clone(), requires_grad=False)
    if outputs is not None:  # transformers writes to both
        outputs.weight = inputs.weight if is_tied else Parameter(outputs.weight.detach().clone(), requires_grad=False)
    model.resize_token_embeddings(tokens, mean_resizing=False)


def _check_tokenizer(model: PreTrainedModel, folder: Path) -> None:
    """Check that the model has embeddings for all tokens of the adapter's own tokenizer.

    Raises:
        ValueError: it has fewer.
    """
    from tokenizers import Tokenizer

    if not (folder / TOKENIZER).is_file():
        return
    tokens, embeddings = Tokenizer.from_file(str(folder / TOKENIZER)).get_vocab_size(), model.get_input_embeddings()
    if tokens > getattr(embeddings, "num_embeddings", tokens):
        raise ValueError(
            f"its tokenizer has {tokens} tokens and the model {embeddings.num_embeddings}; save the adapter with its "
            "embeddings (save_embedding_layers=True)"
        )


def _as_target(weight: Tensor, target: Tensor | None, model: PreTrainedModel) -> Tensor:
    """Return a weight as the one that it replaces; matrices of an adapter in single precision, as peft merges them."""
    import torch

    if target is not None:
        return weight.to(target.device, target.dtype)
    is_half = weight.is_floating_point() and weight.itemsize < torch.float32.itemsize
    return weight.to(model.device, torch.float32 if is_half else weight.dtype)
