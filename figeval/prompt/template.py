"""A prompt template: named Jinja blocks, each rendered on its own, exactly as written.

`context` and `continuation` ask a left-to-right model, `cloze` a model that reads both sides; see
`templates/_default/` for the smallest ones. White space is the author's: a continuation owns its leading blank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from jinja2 import FunctionLoader, Template, TemplateError
from jinja2.exceptions import SecurityError, TemplateNotFound

from figeval.errors import TaskError, near
from figeval.resources import read_template
from figeval.sandbox import environment


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The blocks of one template file."""

    name: str
    sha256: str
    compiled: Template

    @property
    def blocks(self) -> frozenset[str]:
        """Names of the blocks that the file defines."""
        return frozenset(self.compiled.blocks)

    def render(self, block: str, variables: Mapping[str, Any]) -> str:
        """One block as text.

        Raises:
            TaskError: no such block, a variable that is not there, or something the sandbox forbids.
        """
        if block not in self.compiled.blocks:
            raise TaskError(f"template {self.name} has no block {block!r}{near(block, self.compiled.blocks)}")
        try:
            context = self.compiled.new_context(dict(variables))
            return "".join(self.compiled.blocks[block](context))
        except SecurityError as error:
            raise TaskError(f"template {self.name}, block {block!r}: not allowed in the sandbox: {error}") from error
        except TemplateError as error:
            raise TaskError(f"template {self.name}, block {block!r}: {error}") from error


def load_template(name: str, folder: Traversable | None = None) -> PromptTemplate:
    """Read and compile a template; `folder` is that of the task which names it.

    Raises:
        TaskError: there is no such file, or it is no Jinja template.
    """
    read: dict[str, str] = {}

    def source(wanted: str) -> str | None:
        text = read_template(wanted, folder)
        if text is not None:
            read[wanted] = text
        return text

    try:
        compiled = environment(FunctionLoader(source)).get_template(name)
    except TemplateNotFound as error:
        raise TaskError(f"template {str(error)!r} is neither beside its task nor built in") from error
    except TemplateError as error:
        raise TaskError(f"template {name}: {error}") from error
    digest = hashlib.sha256("\0".join(read[key] for key in sorted(read)).encode()).hexdigest()
    return PromptTemplate(name, digest, compiled)
