"""Adapters of peft: what their folder says, and the folder of a whole model that it makes with that of its base.

An adapter's folder holds `adapter_config.json` and `adapter_model.safetensors`: small matrices that belong to those of
a base model, and modules that were trained whole. It may hold a tokenizer, and what figeval writes of a trained model.
Nothing in this module reads weights; `merging` does.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePath

from figeval.errors import ModelError
from figeval.extras import require
from figeval.io.files import is_folder
from figeval.io.text import clean
from figeval.types import JSON

from .files import SEEN_FILE, model_files, weight_files

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
ADAPTER_NAME = "default"  # peft's name for the first adapter of a model
WRAPPED = "base_model.model."  # prefix of all names in an adapter's weights
BASE_DIGEST = "base"  # entry in the metadata of weights that were trained here: digest of the base
WHOLE_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
TOKENIZER = "tokenizer.json"
TOKENIZER_FILES = (
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "chat_template*"),
    *("*.model", "*.tiktoken"),
)

# Types of peft that are merged without loss but rounding; prompts and prefixes are no matrices of the base.
MERGEABLE = ("LORA", "ADALORA", "IA3", "LOHA", "LOKR", "OFT", "BOFT", "HRA", "LN_TUNING")
# Options of LoRA with which an adapter is more than a sum of matrices.
REFUSED_OPTIONS = {
    "alora_invocation_tokens": "applies only after certain tokens",
    "layer_replication": "repeats layers of its base",
    "arrow_config": "chooses among adapters token by token",
    "use_qalora": "was made for a quantised base",
    "megatron_config": "was made for Megatron's layers",
}
# Initial values that do not change the base. With others (pissa, olora, corda, loftq …), the matrices belong to a
# remainder of the base that is in neither folder.
INITIAL_VALUES = (None, True, False, "gaussian", "eva", "orthogonal")

# Class that wrote a checkpoint, by peft's task type: transformers' table of the classes of all architectures.
CLASSES_BY_TASK = {
    "CAUSAL_LM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "SEQ_2_SEQ_LM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "SEQ_CLS": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "TOKEN_CLS": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "QUESTION_ANS": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "FEATURE_EXTRACTION": "MODEL_MAPPING_NAMES",
}
TASKS_BY_ENDING = {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
    "Model": "FEATURE_EXTRACTION",
}
LABELLING_TASKS = ("SEQ_CLS", "TOKEN_CLS")
HEAD_WEIGHTS = ("score.weight", "classifier.weight", "out_proj.weight", "logits_proj.weight")
MAX_HEAD_PARTS = 5  # of the name of a head's matrix: base_model.model.classifier.out_proj.weight
# Entries of an adapter's own config.json that describe the weights of its base, or code.
BASE_ENTRIES = ("vocab_size", "quantization_config", "auto_map", "_name_or_path")


def check_adapter(adapter: JSON, model: str) -> None:
    """Check that an adapter can be merged into its base without loss.

    Raises:
        ModelError: its type or one of its options rules that out.
        MissingPackage: peft is not installed.
    """
    kind, name = str(adapter.get("peft_type")), f"the adapter {model!r}"
    if kind not in MERGEABLE:
        raise ModelError(
            f"{name} is a {clean(kind):.40}, which cannot be merged into its base; use one of {', '.join(MERGEABLE)}"
        )
    for option, reason in REFUSED_OPTIONS.items():
        if adapter.get(option):
            raise ModelError(f"{name} {reason} ({option}), so it cannot be merged; use one without")
    initial = adapter.get("init_lora_weights")
    if initial not in INITIAL_VALUES:
        raise ModelError(
            f"{name} belongs to a changed base (init_lora_weights={clean(str(initial)):.40}); save it again with "
            "peft's path_initial_model_for_weight_conversion, or merge it and give the merged model"
        )
    require("peft", name)


def base_name(adapter: JSON, model: str) -> str:
    """Return the folder or hub id of the base. Raises `ModelError` if the adapter names none."""
    name = adapter.get("base_model_name_or_path")
    if not isinstance(name, str) or not name.strip() or clean(name) != name:
        raise ModelError(f"the adapter {model!r} names no base model; give its folder or hub id: --model_args base=…")
    return name


def moved_folders(adapter: Path, base: str, *, any_ending: bool) -> Iterator[Path]:
    """Yield where the base of an adapter may lie after a folder with both was moved, the nearest to the adapter first.

    Args:
        adapter: folder of the adapter.
        base: path of the base in `adapter_config.json`, where it is not any more.
        any_ending: also try the endings of the path, not only the whole.
    """
    parts = PurePath(base).parts
    for parent in adapter.resolve().parents:
        for begin in range(len(parts) if any_ending else 1):
            folder = parent.joinpath(*parts[begin:])
            if is_folder(folder):
                yield folder


def check_weights_file(folder: Path, model: str) -> None:
    """Check that an adapter's folder has the weights of the adapter, and none of a whole model.

    Raises:
        ModelError: otherwise.
    """
    names = [path.name for path in weight_files(folder) if path.parent == folder]  # not those of further modules
    if not set(ADAPTER_WEIGHTS) & set(names):
        raise ModelError(f"{model!r} has an {ADAPTER_CONFIG} but no {ADAPTER_WEIGHTS[0]}; save the adapter again")
    if weight_names := [name for name in names if any(fnmatch(name, pattern) for pattern in WHOLE_WEIGHTS)]:
        raise ModelError(
            f"{model!r} has both an adapter and a model ({weight_names[0]}); keep one in a folder of its own"
        )


def is_tokenizer_file(name: str) -> bool:
    """Return whether a file belongs to a tokenizer."""
    return any(fnmatch(name, pattern) for pattern in TOKENIZER_FILES)


# ---- the configuration of the whole model ----------------------------------------------------------------------------


def join_configs(base: JSON, trained: JSON | None, adapter: JSON, labels: int | None, model: str) -> JSON:
    """Return the configuration of an adapter's base with the head that the adapter was trained for.

    Args:
        base: the configuration of the base.
        trained: that of the trained model beside the adapter, if there is one.
        adapter: `adapter_config.json`.
        labels: number of outputs of the adapter's own head, if it has one.
        model: name of the adapter, for errors.

    Raises:
        ModelError: the base is quantised, or of another architecture.
    """
    if base.get("quantization_config"):
        raise ModelError(
            f"the base of the adapter {model!r} is quantised, and what is merged into it would be rounded; give the "
            "model that it was made from: --model_args base=…"
        )
    if trained:
        kinds = [clean(str(config.get("model_type"))) for config in (trained, base)]
        if trained.get("model_type") and kinds[0] != kinds[1]:
            raise ModelError(f"the adapter {model!r} is for a {kinds[0]}, its base is a {kinds[1]}; give another base=")
        return base | {name: value for name, value in trained.items() if name not in BASE_ENTRIES}
    config = dict(base)
    if architecture := _architecture(str(base.get("model_type")), str(adapter.get("task_type"))):
        config["architectures"] = [architecture]
    if labels is not None and labels != len(base.get("id2label") or {0: "", 1: ""}):
        names = {str(number): f"LABEL_{number}" for number in range(labels)}
        config |= {"id2label": names, "label2id": {name: int(number) for number, name in names.items()}}
    return config


def _architecture(model_type: str, task: str) -> str:
    """Return the class for a task among those of an architecture; empty if transformers has none."""
    from transformers.models.auto import modeling_auto

    classes = getattr(modeling_auto, CLASSES_BY_TASK.get(task, ""), {}).get(model_type, "")
    return classes if isinstance(classes, str) else str(classes[0])


def task_of(architecture: str) -> str | None:
    """Return peft's task type for a class of transformers; None if it has none."""
    return next((task for ending, task in TASKS_BY_ENDING.items() if architecture.endswith(ending)), None)


def count_labels(weights: Path, adapter: JSON) -> int | None:
    """Return the number of outputs of the head in an adapter's weights; None if there is none, or it is not known."""
    if adapter.get("task_type") not in LABELLING_TASKS or weights.suffix != ".safetensors":
        return None
    from safetensors import SafetensorError, safe_open

    with suppress(OSError, SafetensorError), safe_open(weights, framework="np") as tensors:  # loading will tell
        for name in tensors.keys():  # noqa: SIM118
            if name.endswith(HEAD_WEIGHTS) and name.count(".") < MAX_HEAD_PARTS:
                return int(tensors.get_slice(name).get_shape()[0])
    return None


# ---- the folder of the whole model -----------------------------------------------------------------------------------


def join_folders(base: Path, adapter: Path, config: JSON) -> Path:
    """Return a folder that reads as the model of an adapter, with the weights of its base: all files are links.

    Files of the adapter come before those of the base; a tokenizer comes whole from one of the two. Code comes from
    the base alone. The folder exists as long as the process.
    """
    return Path(_join_folders(base, adapter, json.dumps(config)).name)


@cache
def _join_folders(base: Path, adapter: Path, config: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="figeval-adapter-", ignore_cleanup_errors=True)
    files: dict[Path, Path] = {path.relative_to(base): path for path in model_files(base)}
    if (adapter / TOKENIZER).is_file():
        files = {name: path for name, path in files.items() if not is_tokenizer_file(name.name)}
    files |= {Path(name): path for name, path in adapter_files(adapter).items() if path.suffix != ".py"}
    for name, path in files.items():
        target = Path(folder.name) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name == Path("config.json"):
            target.write_text(config, encoding="utf-8")
        else:
            target.symlink_to(path.resolve())
    return folder


def adapter_files(folder: Path) -> Mapping[str, Path]:
    """Return the files of an adapter that belong to the whole model, by name: all but the adapter itself."""
    paths = {path.relative_to(folder).as_posix(): path for path in model_files(folder)}
    excluded = {ADAPTER_CONFIG, *ADAPTER_WEIGHTS, SEEN_FILE}
    return {name: path for name, path in paths.items() if name not in excluded}


def base_digest(weights: Path) -> str:
    """Return the digest of the base that an adapter was trained on, as it was stored; empty if it was not."""
    if weights.suffix != ".safetensors":
        return ""
    from safetensors import SafetensorError, safe_open

    with suppress(OSError, SafetensorError), safe_open(weights, framework="np") as tensors:  # loading will tell
        return str((tensors.metadata() or {}).get(BASE_DIGEST, ""))
    return ""


def weights_file(folder: Path) -> Path:
    """Return the file with the weights of an adapter: safetensors before a pickle."""
    return next(path for name in ADAPTER_WEIGHTS if (path := folder / name).is_file())
