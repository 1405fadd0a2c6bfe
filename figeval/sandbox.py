"""Jinja as figeval uses it everywhere: sandboxed, strict about missing names, exact about white space.

Templates and field expressions come from third parties; they may read the values given to them and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, TemplateError, Undefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from figeval.errors import TaskError


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, whose global names nobody changes: a plain dictionary of them does.

    Jinja itself has a chain of dictionaries that it copies, slowly, each time that a template is rendered.
    """

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The names that every template knows, overlaid by `d`."""
        return {**self.globals, **(d or {})}


def environment(loader: BaseLoader | None = None) -> Sandbox:
    """A sandboxed environment; a name that is not there is an error, never an empty string."""
    return Sandbox(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)


Expression = Callable[[Mapping[str, Any]], Any]


def expression(source: str, where: str) -> Expression:
    """Compile one Jinja expression to a function of its variables that returns the value itself (an int stays one).

    The function raises `TaskError` naming `where` for what the sandbox forbids and `LookupError` for a missing name
    (Jinja returns an Undefined object there instead of raising).
    """
    try:
        compiled = environment().compile_expression(source, undefined_to_none=False)
    except TemplateError as error:
        raise TaskError(f"{where}: {source!r} is no Jinja expression ({error})") from error

    def evaluate(variables: Mapping[str, Any]) -> Any:
        try:
            value = compiled(**variables)
        except SecurityError as error:
            raise TaskError(f"{where}: {source!r} is not allowed in the sandbox ({error})") from error
        except TemplateError as error:
            raise LookupError(str(error)) from error
        if isinstance(value, Undefined):
            try:
                str(value)
            except SecurityError as error:
                raise TaskError(f"{where}: {source!r} is not allowed in the sandbox ({error})") from error
            except TemplateError as error:
                raise LookupError(str(error)) from error
        return value

    return evaluate
