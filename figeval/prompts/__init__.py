"""Examples → text: sandboxed templates, conversations, and the examples shown before the question."""

from figeval.prompts.context import LETTERS, PromptContext
from figeval.prompts.fewshot import Shots
from figeval.prompts.template import PromptTemplate, load_template

__all__ = ["LETTERS", "PromptContext", "PromptTemplate", "Shots", "load_template"]
