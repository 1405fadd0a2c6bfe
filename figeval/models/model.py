"""Resolution of `--model` and `--model_args` to a backend object."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval.errors import FigevalError, MissingPackage, ModelError, PluginError, UnknownName
from figeval.io.files import expand_user, is_folder
from figeval.io.frontend import warn
from figeval.io.observer import opening
from figeval.io.text import near, one_line
from figeval.language.words import TaskWords
from figeval.models.capabilities import HasRoom, capabilities, model_code
from figeval.plugins import PluginManager, describe, foreign_code
from figeval.registry import Registry, a_type
from figeval.types import JSON, Continuation, Example, Message, Prompt

Factory = Callable[..., Any]
OWN_FLAGS = {  # flag that only some models take, which is no option of theirs → why others refuse it
    "max_cost": "limits the spending of API models",
    "max_tokens": "limits the spending of API models",
    "batch": "is for models with a batch API, such as openai:NAME and anthropic:NAME",
    "resubmit_lost": "is for models with a batch API, such as openai:NAME and anthropic:NAME",
    "reasoning": "is for models that write and can think before they answer",
}
OF_THE_RUN = frozenset({"account"})  # arguments of factories that a run gives, and nobody else
CHANGING = "a text that changes whenever an answer could"
WANTED = f"return {CHANGING} (a version, a digest of the weights)"


class Backends:
    """The registered backend factories, with one line about each."""

    def __init__(self, manager: PluginManager) -> None:
        self.registry: Registry[Factory] = Registry.collect(manager, "register_backends", "model", "figeval ls models")
        self._manager = manager

    def locate(self, model: str, options: Mapping[str, Any]) -> tuple[str, str]:
        """Return (backend, model) for `backend`, `backend:model`, or a folder or hub id that a plugin recognises.

        Raises:
            UnknownName: there is no such backend, and no plugin recognises the name.
            ModelError: a plugin failed to look the model up.
            MissingPackage: the name may be that of a model of the hub, which needs an extra that is not installed.
            PluginError: a plugin returned something other than a name.
        """
        if model in self.registry:  # the name of an object that a program passed in may contain a colon
            return model, ""
        name, colon, rest = model.partition(":")
        if name in self.registry:
            return name, rest
        names = [registration.name for registration in self.registry]
        try:
            resolved = self._manager.first("resolve_backend", model=model, options=dict(options))
        except ModelError as error:  # no such folder or no hub: perhaps a misspelled name of a backend
            raise ModelError(f"{error}{near(model, names, cutoff=0.7)}") from error
        except MissingPackage as error:  # likewise: a misspelt name needs no package
            if near(model, names, cutoff=0.7):
                raise UnknownName("model", model, names, see="figeval ls models") from error
            raise
        if resolved is not None and not isinstance(resolved, str):
            raise PluginError(f"resolve_backend answered {model!r} with {a_type(resolved)}; return a name or None")
        if resolved is not None:
            return resolved, model
        raise UnknownName("model", name if colon else model, names, see="figeval ls models")

    def constraining(self) -> list[str]:
        """Return the names of the backends whose answers can be constrained; those that cannot be loaded are left out.

        A factory declares it by an attribute `constrains_answers`, as the model itself does.
        """
        names = []
        for entry in self.registry:
            with suppress(FigevalError):
                if getattr(self.registry.get(entry.name), "constrains_answers", False):
                    names.append(entry.name)
        return names

    def answers_in_parallel(self, model: str) -> bool:
        """Return whether a model answers many requests in parallel by itself, as far as its name alone tells.

        A factory declares it by an attribute `answers_in_parallel`. Nothing is opened or looked up.
        """
        name = model if model in self.registry else model.partition(":")[0]
        return name in self.registry and bool(getattr(self.registry.get(name), "answers_in_parallel", False))

    def folder_name(self, folder: Path) -> str:
        """Return the `--model` that names a folder; one that is called like a registered model needs a `./`."""
        return f"./{folder}" if str(folder).partition(":")[0] in self.registry else str(folder)

    def folder(self, model: str) -> Path | None:
        """Return the existing folder that `folder` or `backend:folder` names, whatever its content, or None."""
        backend, colon, rest = model.partition(":")
        path_text = "" if model in self.registry else rest if colon and backend in self.registry else model
        folder = expand_user(path_text) if path_text else None
        return folder if folder is not None and is_folder(folder) else None


@dataclass(frozen=True, slots=True)
class Model:
    """A backend object with the name by which it was requested."""

    name: str  # as given with --model
    backend_name: str
    backend: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    wanted: str = ""  # after the colon, or the folder or hub id alone; empty if the backend is the model

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the model."""
        return capabilities(self.backend)

    @property
    def chat(self) -> Callable[[Sequence[Message]], str] | None:
        """Function that turns a conversation into text, if the model's chat template is switched on."""
        template: Callable[[Sequence[Message]], str] | None = getattr(self.backend, "chat", None)
        return template

    @property
    def has_room(self) -> Callable[[Sequence[Continuation | Prompt]], bool] | None:
        """Function that says whether requests fit the model, if the model knows that."""
        return self.backend.has_room if isinstance(self.backend, HasRoom) else None

    @property
    def is_chat_model(self) -> bool:
        """True if the model answers conversations instead of merely continuing a text.

        This holds if its chat template is on, or if it generates text without probabilities, like the chat models
        behind an API. The attribute `is_chat_model` overrides both.
        """
        behind_an_api = "generate" in self.offers and "loglikelihood" not in self.offers
        return bool(getattr(self.backend, "is_chat_model", self.chat is not None or behind_an_api))

    @property
    def counts_words(self) -> bool:
        """True if the model compares words and wants to know how the texts of a task are divided into them."""
        return callable(getattr(self.backend, "use_words", None))

    def use_words(self, words: TaskWords) -> None:
        """Say to a model of words how the texts of the next task are divided, before it is fitted or asked."""
        with model_code():
            self.backend.use_words(words)

    @property
    def learns(self) -> bool:
        """True if the model learns from a task's examples (`fit`)."""
        return callable(getattr(self.backend, "fit", None))

    def fit(self, examples: Iterable[Example]) -> None:
        """Fit a model that learns from a task's examples; nothing happens to others, and no example is read."""
        if self.learns:
            with model_code():
                self.backend.fit(examples)

    def fingerprint(self) -> str:
        """Return a text that changes whenever an answer could: the backend's, or its name and options if they suffice.

        Raises:
            ModelError: the backend has no fingerprint, its method fails, or the fingerprint is empty.
        """
        if not callable(getattr(self.backend, "fingerprint", None)):
            self.check_fingerprint()
            return f"{self.backend_name}:{self.wanted} {json.dumps(dict(self.options), sort_keys=True, default=str)}"
        try:
            with foreign_code():
                fingerprint: object = self.backend.fingerprint()
        except (FigevalError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ModelError(f"{self._called('fingerprint')} raised {describe(error)}; {WANTED}") from error
        if not isinstance(fingerprint, str) or not fingerprint.strip():
            problem = "an empty text" if isinstance(fingerprint, str) else a_type(fingerprint)
            raise ModelError(f"{self._called('fingerprint')} returned {problem}; {WANTED}")
        return fingerprint

    def check_fingerprint(self) -> None:
        """Check that the backend can prove to be the one that began a run. Raises `ModelError` if it cannot."""
        has_fingerprint = callable(getattr(self.backend, "fingerprint", None))
        if not has_fingerprint and getattr(self.backend, "deterministic_by_name", False) is not True:
            raise ModelError(
                f"model {self.name!r} has no fingerprint, so a changed model could resume its run unnoticed; give "
                f"{type(self.backend).__name__} a method fingerprint() that returns {CHANGING}, or, if name and "
                "options alone determine its answers, the attribute deterministic_by_name = True"
            )

    def description(self) -> JSON:
        """Return the backend's description as JSON. If it fails, the description holds a warning instead."""
        if not callable(getattr(self.backend, "describe", None)):
            return {}
        try:
            with foreign_code():
                description: JSON = json.loads(json.dumps(dict(self.backend.describe()), default=str))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return {"warnings": [one_line(f"{self._called('describe')} raised {describe(error)}")]}
        return description

    def _called(self, method: str) -> str:
        return f"{method}() of model {self.name!r}"

    @property
    def parts(self) -> Sequence[Model]:
        """Models that it is composed of; most models have none."""
        return tuple(getattr(self.backend, "parts", {}).values())

    @property
    def source(self) -> str:
        """Source of the weights: a folder or a hub id; empty for a model without weights."""
        if hasattr(self.backend, "source"):
            return str(self.backend.source())
        return str(self.options.get("pretrained") or self.wanted)

    def close(self) -> None:
        """Release the backend's resources. A failure is only a warning, because all results are stored by then."""
        if not callable(getattr(self.backend, "close", None)):
            return
        try:
            with foreign_code():
                self.backend.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            warn(f"{self._called('close')} raised {describe(error)}")


def open_model(
    backends: Backends, model: str, options: Mapping[str, Any], common: Mapping[str, Any] | None = None
) -> Model:
    """Open the backend that `--model` names, with `--model_args` (`options`).

    `common` (device, batch size, seed) is passed to the factories that accept it. lm-eval's spelling
    `--model hf --model_args pretrained=gpt2` (or `model=`, for models behind an API) is understood.

    Raises:
        UnknownName: there is no such model.
        ModelError: the factory has no such option or misses one, or the model has no fingerprint; also any error that
            the factory raises for a model that it cannot use.
        PluginError: the factory is not a function, or takes no `model`.
    """
    options = dict(options)
    for option_name in ("pretrained", "model"):
        if option_name in options and ":" not in model:
            model = f"{model}:{options.pop(option_name)}"
    name, target = backends.locate(model, options)
    factory = backends.registry.get(name)
    signature = _signature(name, factory)
    parameters = signature.parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in options:
        if option in OF_THE_RUN or (option not in parameters and not open_ended):
            names = set(parameters) - {"model", *OF_THE_RUN}
            raise ModelError(f"model {name!r} has no option {option!r}{near(option, names)}")
        if option in OWN_FLAGS and option in parameters:  # a changed option makes another run, a raised budget must not
            raise ModelError(f"{option} is a flag, not an option of the model; write --{option}")
    for flag, reason in OWN_FLAGS.items():
        if (common or {}).get(flag) is not None and flag not in parameters:
            raise ModelError(f"--{flag} {reason}; leave it out for {name!r}")
    shared = {key: value for key, value in (common or {}).items() if key in parameters and value is not None}
    arguments = {**shared, **options}
    _check_call(name, signature, target, arguments)
    with foreign_code(), opening(model):
        backend = factory(target, **arguments)
    opened = Model(model, name, backend, options, target)
    opened.check_fingerprint()
    return opened


def _signature(name: str, factory: Factory) -> inspect.Signature:
    """Return the signature of a factory. Raises `PluginError` if it is not callable or has no signature."""
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError) as error:
        kind = a_type(factory)
        raise PluginError(f"the factory of model {name!r} is {kind}; register a class or a function") from error


def _check_call(name: str, signature: inspect.Signature, target: str, arguments: Mapping[str, Any]) -> None:
    """Check that a factory can be called, so that a `TypeError` during the call comes from inside the factory.

    Raises:
        PluginError: the factory takes no `model`.
        ModelError: an option is missing, or names the model itself.
    """
    try:
        signature.bind_partial(target)
    except TypeError as error:
        raise PluginError(
            f"the factory of model {name!r} takes no `model`; write `def __init__(self, model)` in a class, or "
            "`def factory(model)`, followed by its options"
        ) from error
    try:
        signature.bind(target, **arguments)
    except TypeError as error:
        raise ModelError(
            f"model {name!r} cannot be created with these options: {error}; its factory takes `model` first, and the "
            "others from --model_args"
        ) from error


def refuse_model_name(backend: str, model: str) -> None:
    """Check that nothing follows the colon of a backend that takes no model name.

    Raises:
        ModelError: `--model backend:something` was given.
    """
    if model:
        raise ModelError(f"{backend!r} takes nothing after the colon, got {model!r}; use --model {backend}")
