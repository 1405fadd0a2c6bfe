"""From `--model` and `--model_args` to a backend object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from figeval.errors import ModelError, UnknownName, near
from figeval.models.capabilities import capabilities
from figeval.plugins import Host
from figeval.registry import Registry, fill, plain
from figeval.types import Message

Factory = Callable[..., Any]
BUDGETS = ("max_cost", "max_tokens")


class Backends:
    """The registered factories and a line about each."""

    def __init__(self, host: Host) -> None:
        self.registry: Registry[Factory] = Registry("model", "figeval ls models")
        self.summaries: dict[str, str] = {}
        self._host = host
        fill(host, "register_backends", self._add, plain)

    def _add(self, name: str, factory: Factory | str, summary: str = "", *, owner: str) -> None:
        self.registry.add(name, factory, owner)
        self.summaries[name] = summary

    def locate(self, model: str, options: Mapping[str, Any]) -> tuple[str, str]:
        """(backend, what it should load) for `backend`, `backend:model`, or a folder or hub id that a plugin knows.

        Raises:
            UnknownName: no backend is called so, and no plugin recognises it.
            ModelError: a plugin that looked for it could not.
        """
        name, colon, rest = model.partition(":")
        if name in self.registry:
            return name, rest
        known = [entry.name for entry in self.registry]
        try:
            resolved = self._host.first("resolve_backend", model=model, options=dict(options))
        except ModelError as error:  # no such folder, or no hub to ask: or it was meant to be one of our names
            raise ModelError(f"{error}{near(model, known, cutoff=0.7)}") from error
        if resolved is not None:
            return str(resolved), model
        raise UnknownName("model", name if colon else model, known, see="figeval ls models")


@dataclass(frozen=True, slots=True)
class Model:
    """A backend object with the name under which it was asked for."""

    name: str  # as given with --model
    backend_name: str
    backend: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    wanted: str = ""  # behind the colon, or the folder or hub id that stood alone; empty where the backend is the model

    @property
    def offers(self) -> frozenset[str]:
        """Its capabilities."""
        return capabilities(self.backend)

    @property
    def chat(self) -> Callable[[Sequence[Message]], str] | None:
        """What turns a conversation into text, for a model whose chat template is switched on."""
        found: Callable[[Sequence[Message]], str] | None = getattr(self.backend, "chat", None)
        return found

    @property
    def converses(self) -> bool:
        """Whether it answers a conversation and does not merely go on with a text: its chat template is on, or it
        writes and gives no probabilities, like the chat models behind an API. Its attribute `converses` overrules that.
        """
        behind_an_api = "generate" in self.offers and "loglikelihood" not in self.offers
        return bool(getattr(self.backend, "converses", self.chat is not None or behind_an_api))

    def fit(self, examples: Any) -> bool:
        """Let a model that learns from a task's texts or labels do so; False if this one does not."""
        fit = getattr(self.backend, "fit", None)
        if fit is None:
            return False
        fit(examples)
        return True

    def fingerprint(self) -> str:
        """What changes with the weights; empty for a backend that cannot tell."""
        return str(self.backend.fingerprint()) if hasattr(self.backend, "fingerprint") else ""

    def description(self) -> dict[str, Any]:
        """What the backend says of itself."""
        return dict(self.backend.describe()) if hasattr(self.backend, "describe") else {}

    @property
    def parts(self) -> Sequence[Model]:
        """The models that it is made of; of most models none."""
        return tuple(getattr(self.backend, "parts", {}).values())

    @property
    def source(self) -> str:
        """Where its weights come from: a folder, or a hub id; empty for a model without any."""
        if hasattr(self.backend, "source"):
            return str(self.backend.source())
        return str(self.options.get("pretrained") or self.wanted)

    def close(self) -> None:
        """Free its memory."""
        if hasattr(self.backend, "close"):
            self.backend.close()


def open_model(
    backends: Backends, model: str, options: Mapping[str, Any], common: Mapping[str, Any] | None = None
) -> Model:
    """The backend that `--model` names, made with `--model_args` (`options`).

    `common` (device, batch size, seed) goes to the factories that know such a thing. lm-eval's spelling
    `--model hf --model_args pretrained=gpt2` (or `model=`, for models behind an API) is understood.

    Raises:
        UnknownName: nobody knows the model.
        ModelError: the factory has no such option; whatever the factory raises for a model it cannot use.
    """
    options = dict(options)
    for named in ("pretrained", "model"):
        if named in options and ":" not in model:
            model = f"{model}:{options.pop(named)}"
    name, wanted = backends.locate(model, options)
    factory = backends.registry.get(name)
    known = inspect.signature(factory).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not open_ended:
            raise ModelError(f"model {name!r} has no option {option!r}{near(option, set(known) - {'model'})}")
        if option in BUDGETS and option in known:  # to raise a budget is no other run, to change an option is
            raise ModelError(f"{option} is no option of the model but a flag: --{option}")
    for flag in BUDGETS:
        if (common or {}).get(flag) is not None and flag not in known:
            raise ModelError(f"--{flag} bounds what models behind an API may spend; leave it out for {name!r}")
    shared = {key: value for key, value in (common or {}).items() if key in known and value is not None}
    return Model(model, name, factory(wanted, **{**shared, **options}), options, wanted)
