"""The models of lm-eval: their registry, capabilities and options. No model is loaded here."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from figeval.errors import ModelError
from figeval.io.text import near

from ..torch_models.faults import one_line
from ..torch_models.loading import suppress_logging

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from lm_eval.api.registry import Registry
    from lm_eval.models.api_models import JsonChatStr

GROUP = "lm_eval.models"  # entry points; lm-eval itself reads them in releases after 0.4.13, but not in 0.5.0.dev1
OWN_MODELS = {"figeval-hf": "figeval.builtin.plugins.causal.figeval_hf:FigevalHF"}
METHODS = {"loglikelihood": "loglikelihood", "generate": "generate_until"}  # capability → method of an LM
SCORED_BY_OPENAI = frozenset({"babbage-002", "davinci-002"})
# Models without log-likelihoods, and the reason. `refuses` decides about models that are not listed.
CHAT = "a chat API returns probabilities of what it writes, never of a text that it is given"
NO_LOGLIKELIHOOD = {
    "anthropic-chat": CHAT,
    "anthropic-chat-completions": CHAT,
    "anthropic-completions": "Anthropic returns no probabilities",
    "azure-openai-chat-completions": CHAT,
    "litellm": CHAT,
    "litellm-chat": CHAT,
    "litellm-chat-completions": CHAT,
    "local-chat-completions": CHAT,
    "openai-chat-completions": CHAT,
}
KEYS = {
    "anthropic-chat": "ANTHROPIC_API_KEY",
    "anthropic-chat-completions": "ANTHROPIC_API_KEY",
    "anthropic-completions": "ANTHROPIC_API_KEY",
    "azure-openai-chat-completions": "AZURE_OPENAI_API_KEY",
    "openai-chat-completions": "OPENAI_API_KEY",
    "openai-completions": "OPENAI_API_KEY",
    "textsynth": "TEXTSYNTH_API_SECRET_KEY",
}
EXTRAS = {  # module that may be missing → the extra of lm-eval that installs it
    "aiohttp": "api",
    "anthropic": "anthropic",
    "ibm_watsonx_ai": "ibm_watsonx_ai",
    "litellm": "litellm",
    "mamba_ssm": "mamba",
    "onnxruntime": "onnxruntime",
    "onnxruntime_genai": "onnxruntime-genai",
    "optimum": "optimum",
    "requests": "api",
    "sglang": "sglang",
    "tenacity": "api",
    "tiktoken": "api",
    "vllm": "vllm",
}
# Names that end like a secret but are none.
HARMLESS = frozenset({"add_bos_token", "bos_token", "eos_token", "pad_token", "stop_token", "think_end_token"})
SECRET = re.compile(r"(^|_)(api_?key|apikey|key|token|secret|password|passwd|credentials?|authorization|headers?)$")


Rendered: TypeAlias = "str | JsonChatStr"  # a conversation: text, or for a chat API the turns as JSON


def lm_eval_version() -> str:
    """Return the installed release of lm-eval."""
    return version("lm_eval")


def model_registry() -> Registry:
    """Return lm-eval's models by name: its own first, then `figeval-hf`, then those of installed distributions.

    The order matters: lm-eval fills its registry when `lm_eval.models` is imported, and otherwise only while the
    registry is empty. Anything registered earlier makes `hf` unknown. A name that is taken keeps its owner.
    """
    import_module("lm_eval.models")
    registry = import_module("lm_eval.api.registry").MODEL_REGISTRY
    further: dict[str, str | EntryPoint] = {**OWN_MODELS, **{point.name: point for point in entry_points(group=GROUP)}}
    for name, target in further.items():
        if name not in registry:
            registry.register(name, target=target)
    return registry


def find(name: str) -> type:
    """Return the class of this name.

    Raises:
        ModelError: lm-eval has no such model, or a package that it imports is not installed.
    """
    with suppress_logging("lm_eval", errors=True):
        registry = model_registry()
        if name not in registry:
            names = sorted(registry.keys())
            problem = (
                f"lm-eval {lm_eval_version()} has no model {name!r}" if name else "say which: --model lm_eval:NAME"
            )
            raise ModelError(f"{problem}{near(name, names)}; it has {', '.join(names)}")
        try:
            return registry[name]  # type: ignore[no-any-return]
        except ImportError as error:
            raise missing_module(name, error) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"lm-eval cannot import its model {name!r}: {one_line(error)}") from error


# ---- what a class can do --------------------------------------------------------------------------------------------


def capabilities_of(name: str, kind: type, options: Mapping[str, object]) -> frozenset[str]:
    """Return the capabilities of an lm-eval model under this name and with these options."""
    able = {capability for capability, method in METHODS.items() if not refuses(kind, method)}
    asked_for = str(options.get("model") or options.get("pretrained") or "")
    if name in NO_LOGLIKELIHOOD or (name == "openai-completions" and asked_for not in SCORED_BY_OPENAI):
        able.discard("loglikelihood")
    return frozenset(able)


def refuses(kind: type, method: str) -> bool:
    """Return whether a class lacks a method, or has one that does nothing but raise NotImplementedError.

    This is read from the source, because a call would cost weights or money. If the source is unavailable, the class is
    trusted.
    """
    function = getattr(kind, method, None)
    if function is None or getattr(function, "__isabstractmethod__", False):
        return True
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return False
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return False
    body = [
        node for node in definition.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])


# ---- what it may be given -------------------------------------------------------------------------------------------


def check_options(name: str, kind: type, options: Mapping[str, object]) -> None:
    """Reject secrets, a missing key, and options that the class does not have.

    Raises:
        ModelError: one line with the cure.
    """
    for option, value in options.items():
        check_no_secret(name, option, value)
    variable = KEYS.get(name)
    if variable and not os.environ.get(variable):
        raise ModelError(f"lm_eval:{name} needs a key: set the environment variable {variable}")
    options_of_class, open_ended = parameters(kind)
    for option in options:
        if option not in options_of_class and not open_ended:
            raise ModelError(f"lm_eval:{name} has no option {option!r}{near(option, options_of_class)}")


def check_no_secret(name: str, option: str, value: object) -> None:
    """Raise `ModelError` for a key among the options: options are recorded, and visible in the list of processes."""
    for inner, nested in value.items() if isinstance(value, Mapping) else ():
        check_no_secret(name, str(inner), nested)
    secret = bool(SECRET.search(option.lower())) and option not in HARMLESS and isinstance(value, str | Mapping)
    address = urlsplit(value) if isinstance(value, str) and "://" in value else None
    if secret or (address is not None and (address.password or address.username)):
        cure = KEYS.get(name) or ("HF_TOKEN" if name.startswith("hf") else "OPENAI_API_KEY")
        raise ModelError(
            f"lm_eval:{name}: {option} looks like a secret, and options are recorded; leave it out and set the "
            f"environment variable {cure}, where this model looks for it"
        )


def parameters(kind: type) -> tuple[frozenset[str], bool]:
    """Return the options that a class or one of its bases names, and whether it uses options that none names.

    lm-eval's API models accept any option and drop those that they do not know: a misspelt one would go unnoticed.
    """
    names: set[str] = set()
    for base in kind.__mro__:
        if "__init__" not in vars(base) or base is object or base.__name__ in ("LM", "TemplateLM"):
            continue
        init_parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        kinds = {parameter.kind for parameter in init_parameters}
        names |= {
            parameter.name
            for parameter in init_parameters
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        } - {"self"}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            return frozenset(names), False
    forgetful = any(base.__name__ == "TemplateAPI" for base in kind.__mro__)
    return frozenset(names), not forgetful


# ---- what went wrong -------------------------------------------------------------------------------------------------


def missing_module(name: str, error: ImportError) -> ModelError:
    """Return the error for a package that is not installed, naming lm-eval's extra if there is one."""
    text = " ".join(str(error).split())
    words = ((error.name or "").partition(".")[0], *re.findall(r"\w+", text), name.partition("-")[0])
    module = next((word for word in words if word in EXTRAS), None)
    if module is not None:
        return ModelError(f"lm_eval:{name} needs {module}: pip install 'lm-eval[{EXTRAS[module]}]'")
    return ModelError(f"lm_eval:{name} needs something that is not installed: {text[:300]}")
