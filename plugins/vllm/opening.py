"""Opening of `--model vllm:NAME`: everything that can be wrong with its options is found before weights are loaded."""

from __future__ import annotations

import inspect
import os
from dataclasses import fields
from shlex import quote
from typing import Any

from figeval.errors import ModelError
from figeval.extras import require
from figeval.io.observer import report_loading
from figeval.io.text import near
from figeval.reasoning import Reasoning

from ..encoders.prompts import OPTION_NAMES, place_prompts
from ..torch_models.checkpoint import Checkpoint, backend_of, check_chat_template, locate
from ..torch_models.loading import suppress_logging
from ..torch_models.settings import positive
from .language_model import VllmLanguageModel
from .pooling import VllmCrossEncoder, VllmEncoder
from .vllm_model import VllmSettings

SERVER = "start `vllm serve` in another environment, since it pins torch, and use --model vllm_server:NAME"
# Options that figeval sets itself.
RESERVED = frozenset({"model", "tokenizer", "skip_tokenizer_init", "runner", "generation_config", "logprobs_mode"})
OWN_OPTIONS = frozenset(field.name for field in fields(VllmSettings)) - {
    "apply_chat_template",
    "engine",
    "model",
    "reasoning",
    "seed",
}


def vllm(
    model: str = "",
    /,
    *,
    device: str | None = None,
    batch_size: int | str = "auto",
    apply_chat_template: bool | None = None,
    reasoning: Reasoning | None = None,
    seed: int = 0,
    **options: Any,
) -> VllmLanguageModel | VllmEncoder | VllmCrossEncoder:
    """Open a folder or hub id in vLLM: a causal model, an encoder or a cross-encoder.

    Args:
        model: folder or hub id.
        device: must be left out; a build of vLLM is for one kind of device.
        batch_size: most requests at a time, vLLM's `max_num_seqs`; "auto" leaves it to vLLM.
        apply_chat_template: whether conversations are rendered by the chat template.
        reasoning: whether and how long a causal model thinks before it answers (--reasoning).
        seed: number that distinguishes samples.
        options: those of vLLM's `LLM`.

    Raises:
        MissingPackage: vLLM is not installed.
        ModelError: an unknown option, no such model or one that vLLM has no task for here, fewer
            devices than asked for, or a chat template without a choice on whether to use it; --reasoning for a model
            that is not known to think, and what `decoding_of` raises.
    """
    require("vllm", alternative=SERVER)
    if device is not None:
        raise ModelError("vllm runs on the device that its build is for; leave --device out")
    if batch_size != "auto":
        options["max_num_seqs"] = positive("batch_size", batch_size)
    own_options = {name: value for name, value in options.items() if name in OWN_OPTIONS}
    engine = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    settings = VllmSettings(
        model=model,
        apply_chat_template=apply_chat_template,
        reasoning=reasoning,
        seed=seed,
        **own_options,
        engine=engine,
    )
    opened_model = open_checkpoint(settings, locate(settings.model, settings.revision))
    report_loading()
    check_options(settings)
    check_devices(settings)
    return opened_model


vllm.constrains_answers = True  # type: ignore[attr-defined]


def open_checkpoint(
    settings: VllmSettings, checkpoint: Checkpoint
) -> VllmLanguageModel | VllmEncoder | VllmCrossEncoder:
    """Return the model as what its checkpoint is, without loading weights.

    Raises:
        ModelError: vLLM cannot serve it here, it is undecided whether to use its chat template, --reasoning is given
            for a model that is not known to think, or a prompt for one that is no encoder.
    """
    kind = backend_of(checkpoint)
    if checkpoint.base is not None:
        other = quote(f"{kind or 'causal'}:{settings.model}")
        raise ModelError(f"vllm takes no adapter; use --model {other}, or merge it")
    if kind == "encoder":
        return VllmEncoder(settings, checkpoint, place_prompts(checkpoint, settings.prompts, settings.instruction))
    options = {
        **{OPTION_NAMES[role]: prompt for role, prompt in settings.prompts.items()},
        "instruction": settings.instruction,
    }
    if prompts := [name for name, prompt in options.items() if prompt is not None]:
        raise ModelError(f"{prompts[0]} is for encoders, and {settings.model!r} is none; leave it out")
    if kind == "pairs":
        return VllmCrossEncoder(settings, checkpoint)
    if kind != "causal":
        kind_name = checkpoint.architecture or "model of an unknown class"
        cure = (
            f"use --model {quote(f'{kind}:{settings.model}')}"
            if kind
            else "it needs a causal model, an encoder or cross-encoder"
        )
        raise ModelError(f"vllm cannot use {settings.model!r}, which is a {kind_name}; {cure}")
    check_chat_template(checkpoint, settings.apply_chat_template)
    model = VllmLanguageModel(settings, checkpoint)
    if settings.reasoning is not None:
        model.prompting.check()
    return model


def check_options(settings: VllmSettings) -> None:
    """Reject options that vLLM does not have, those that figeval sets, and several replicas.

    Raises:
        ModelError: one line with the cure.
    """
    with suppress_logging("vllm"):
        from vllm import EngineArgs

    engine_options = {field.name for field in fields(EngineArgs)} - RESERVED
    for name in settings.engine:
        if name not in engine_options:
            raise ModelError(f"vllm has no option {name!r}{near(name, [*engine_options, *OWN_OPTIONS])}")
    if positive("data_parallel_size", settings.engine.get("data_parallel_size", 1)) > 1:
        raise ModelError(
            "vLLM's offline engine runs one replica: for data_parallel_size start "
            f"`vllm serve {settings.model} --data-parallel-size {settings.engine['data_parallel_size']}`, "
            "and use --model vllm_server:NAME"
        )


def check_devices(settings: VllmSettings) -> None:
    """Raise `ModelError` if the machine has fewer devices than the model is to be divided among."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size")
    sizes_by_name = {name: positive(name, settings.engine[name]) for name in sizes if name in settings.engine}
    required = sizes_by_name.get(sizes[0], 1) * sizes_by_name.get(sizes[1], 1)
    has, device_name = devices()
    if required > has:
        settings_text = " and ".join(f"{name}={value}" for name, value in sizes_by_name.items())
        raise ModelError(
            f"{settings_text} needs {required} {device_name}, but this machine has {has}; use {has} or fewer"
        )


def devices() -> tuple[int, str]:
    """Return the number of devices that vLLM can use, and what they are called."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return len(os.sched_getaffinity(0)), "CPU cores"
    return int(current_platform.device_count()), "GPUs"


def _signature() -> inspect.Signature:
    """Return the signature of `vllm` with the options that are fields of `VllmSettings`."""
    *parameters, options = inspect.signature(vllm).parameters.values()
    settings = inspect.signature(VllmSettings).parameters
    own_parameters = [
        settings[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in settings if name in OWN_OPTIONS
    ]
    return inspect.Signature([*parameters, *own_parameters, options])


vllm.__signature__ = _signature()  # type: ignore[attr-defined]
vllm.settings = VllmSettings  # type: ignore[attr-defined]
