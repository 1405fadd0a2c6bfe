"""Examples → text: sandboxed templates and the examples shown before the question."""

from figeval.prompt.fewshot import Shots
from figeval.prompt.template import PromptTemplate, load_template

__all__ = ["PromptTemplate", "Shots", "load_template"]
