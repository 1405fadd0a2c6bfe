"""A prompt template: named Jinja blocks, each rendered on its own, exactly as written.

`context` and `continuation` ask a left-to-right model, `cloze` a model that reads both sides; see
`templates/_default/` for the smallest ones. White space is the author's: a continuation owns its leading blank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from jinja2 import Environment, FunctionLoader, Template
from jinja2.exceptions import TemplateNotFound
from jinja2.meta import find_referenced_templates

from figeval.errors import TaskError, near
from figeval.files import read_template
from figeval.sandbox import MAX_SOURCE, EvaluationError, compiling, environment, evaluating
from figeval.steps import joined


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
        where = f"template {self.name}, block {block!r}"
        try:
            with evaluating(where):
                context = self.compiled.new_context(dict(variables))
                return joined(self.compiled.blocks[block](context))
        except (LookupError, EvaluationError) as error:
            raise TaskError(f"{where}: {error}") from error


def load_template(name: str, folder: Traversable | None = None) -> PromptTemplate:
    """Read and compile a template; `folder` is that of the task which names it.

    Raises:
        TaskError: there is no such file, or it is no Jinja template.
    """
    jinja = environment(FunctionLoader(lambda wanted: read_template(wanted, folder, MAX_SOURCE)))
    with compiling(f"template {name:.200}"):
        try:
            digest = hashlib.sha256("\0".join(_sources(name, jinja, {})).encode()).hexdigest()
            compiled = jinja.get_template(name)
        except TemplateNotFound as error:
            raise TaskError(f"template {str(error)!r:.200} is neither beside its task nor built in") from error
    return PromptTemplate(name, digest, compiled)


def _sources(name: str, jinja: Environment, found: dict[str, str]) -> Iterable[str]:
    """The text of a template and of all that it includes or imports: a change in any of them is a change."""
    if name not in found:
        assert jinja.loader is not None
        found[name] = jinja.loader.get_source(jinja, name)[0]
        for other in find_referenced_templates(jinja.parse(found[name])):
            if other is not None:  # a name computed at run time
                _sources(other, jinja, found)
    return found.values()
