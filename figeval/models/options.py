"""Options of a model (`--model_args`): read from the signature of its factory and from docstrings.

The help of an option is its entry under `Args:` or `Attributes:` in the docstring of the factory, or of its attribute
`settings`, the class whose fields are the options.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from figeval.models.model import OF_THE_RUN, OWN_FLAGS

SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \w+)*): (.*(?:\n     .*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModelOption:
    """One option of a model.

    Attributes:
        name: its key in `--model_args`; with two asterisks, it stands for any further options.
        type: annotation of the parameter; empty if it has none.
        default: its default; None also if it is required.
        is_required: whether there is no default.
        help: description; empty if no docstring has one.
    """

    name: str
    type: str
    default: object
    is_required: bool
    help: str


def model_options(factory: Callable[..., Any]) -> list[ModelOption]:
    """Return the options of a model; its first parameter is its name; others are flags of `run` or set by it.

    Raises:
        TypeError, ValueError: the factory has no signature.
    """
    source = getattr(factory, "settings", factory)
    helps = dict([*_helps(factory), *_helps(source)])
    parameters = list(inspect.signature(factory).parameters.values())[1:]
    hidden = OWN_FLAGS.keys() | OF_THE_RUN
    return [_option(parameter, source, helps) for parameter in parameters if parameter.name not in hidden]


def _option(parameter: inspect.Parameter, source: object, helps: dict[str, str]) -> ModelOption:
    is_open = parameter.kind is parameter.VAR_KEYWORD
    is_required = parameter.default is parameter.empty and not is_open
    default = None if parameter.default is parameter.empty else parameter.default
    if dataclasses.is_dataclass(source):
        for field in dataclasses.fields(source):
            if field.name == parameter.name and field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
    annotation = parameter.annotation
    kind = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    name = f"**{parameter.name}" if is_open else parameter.name
    return ModelOption(
        name, "" if annotation is parameter.empty else kind, default, is_required, helps.get(parameter.name, "")
    )


def _helps(source: object) -> Iterator[tuple[str, str]]:
    """Yield (name, help) for each documented argument; those of a class come after those of its base classes."""
    parts: list[object] = [source]
    if inspect.isclass(source):
        parts = [part for cls in reversed(inspect.getmro(source)) for part in (cls, vars(cls).get("__init__"))]
    for part in parts:
        docstring = inspect.cleandoc(getattr(part, "__doc__", None) or "")
        for section in SECTION.findall(f"{docstring}\n"):
            for names, text in ENTRY.findall(section):
                for name in names.split(", "):
                    yield name.lstrip("*"), " ".join(text.split())
