"""Which model of lm-eval was asked for, with which options: all that can be known and refused before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from figeval.errors import ModelError, near
from figeval.resources import expand_user
from figeval.textfile import is_folder
from figeval.types import JSON

from .._checkpoint import Checkpoint, backend_of, check_chat_template, locate
from .._files import fingerprint
from .._lmeval import lm_eval_version, model_registry, silent
from .._loading import load_errors, one_line
from . import _facts as facts

ENCODERS = frozenset({"encoder", "masked", "pairs"})  # backends for what reads both sides
# How fast an answer comes, not which.
PACE = frozenset({"batch_size", "device", "max_batch_size", "max_retries", "num_concurrent", "timeout", "verbose"})


def find(name: str) -> type:
    """The class of this name.

    Raises:
        ModelError: lm-eval has none, or what it imports is not installed.
    """
    with silent():
        registry = model_registry()
        if name not in registry:
            known = sorted(registry.keys())
            said = f"lm-eval {lm_eval_version()} has no model {name!r}" if name else "say which: --model lm_eval:NAME"
            raise ModelError(f"{said}{near(name, known)}; it has {', '.join(known)}")
        try:
            return registry[name]  # type: ignore[no-any-return]
        except ImportError as error:
            raise facts.missing_module(name, error) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"lm-eval cannot import its model {name!r}: {one_line(error)}") from error


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, before anything is loaded."""

    name: str
    kind: type
    options: Mapping[str, Any]
    templated: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is transformers' weights in this process."""
        return any(base.__name__ == "HFLM" for base in self.kind.__mro__)

    @property
    def has_template(self) -> bool:
        """Whether the class knows what a conversation looks like; the one that all inherit only raises."""
        owner = next(base for base in self.kind.__mro__ if "apply_chat_template" in vars(base))
        return owner.__name__ != "LM"

    @property
    def is_chat(self) -> bool:
        """Whether its server takes conversations and nothing else."""
        return self.has_template and "loglikelihood" not in self.offers and self.name != "openai-completions"

    @property
    def offers(self) -> frozenset[str]:
        """Its capabilities."""
        return facts.offered(self.name, self.kind, self.options)

    def checkpoint(self) -> Checkpoint | None:
        """Its configuration, where it is one of transformers with a folder or hub id."""
        pretrained = self.options.get("pretrained")
        if not self.is_local or not isinstance(pretrained, str) or self.options.get("gguf_file"):
            return None
        return locate(pretrained, self.options.get("revision"))

    def check_checkpoint(self, apply_chat_template: bool | None) -> None:
        """Refuse what lm-eval would score with nonsense or without a word.

        Raises:
            ModelError: an encoder, whose every token would see itself; a chat template, and nothing said of it.
        """
        checkpoint = self.checkpoint()
        if checkpoint is None:
            return
        served = backend_of(checkpoint)
        if served in ENCODERS:
            raise ModelError(
                f"lm_eval:{self.name} cannot use {checkpoint.model!r}, which is a {checkpoint.architecture}: lm-eval "
                f"would read it from left to right; use --model {served}:{checkpoint.model}"
            )
        check_chat_template(checkpoint, apply_chat_template)

    def build(self) -> Any:
        """The LM.

        Raises:
            ModelError: it cannot be made of these options.
        """
        unusable: tuple[type[Exception], ...] = (*load_errors(), AssertionError)
        try:
            with silent():
                lm = self.kind.create_from_arg_obj(dict(self.options))  # type: ignore[attr-defined]
                _ = getattr(lm, "api_key", None)  # says now whether the key is missing
                return lm
        except ImportError as error:
            raise facts.missing_module(self.name, error) from error
        except unusable as error:
            raise ModelError(f"lm_eval:{self.name} cannot be made of these --model_args: {one_line(error)}") from error

    def identity(self) -> JSON:
        """All that can change an answer: folders by what is in them, hub models by their files."""
        found: JSON = {"model": self.name, "version": lm_eval_version(), "template": self.templated}
        checkpoint = self.checkpoint()
        for option, value in sorted(self.options.items()):
            if option == "pretrained" and checkpoint is not None:
                found[option] = checkpoint.fingerprint()
            elif option not in PACE:
                folder = isinstance(value, str) and value and is_folder(expand_user(value))
                found[option] = fingerprint(expand_user(value)) if folder else value
        return found
