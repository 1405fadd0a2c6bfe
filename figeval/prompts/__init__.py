"""Examples → text: sandboxed templates and the examples shown before the question."""

from figeval.prompts.fewshot import Shots
from figeval.prompts.template import PromptTemplate, load_template

__all__ = ["PromptTemplate", "Shots", "load_template"]
