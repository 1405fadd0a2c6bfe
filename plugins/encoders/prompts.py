"""Prompts that sentence encoders read before a text: E5's "query: " and "passage: ", an instruction before queries …

A checkpoint of sentence-transformers declares prompts by name in `config_sentence_transformers.json`. They are placed
as its `encode_query` and `encode_document` document it: queries get the prompt `query`; documents, which are what a
query is compared with, get the first of `document`, `passage` and `corpus` that has a text.

Texts that are neither are compared with texts of their kind, such as the two sentences of a pair. They get the prompt
`STS`, mteb's name for such tasks, or else the default prompt, as from `encode`. Without either, a model whose documents
have a prompt as well has never read a text without one, so that such texts are read as queries, as the authors of E5
ask for; other models read them without a prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from figeval.errors import ModelError
from figeval.io.text import clean, near
from figeval.types import JSON, Text, TextRole

from ..torch_models.checkpoint import SENTENCE, Checkpoint

PROMPT_NAMES: dict[TextRole, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
    "": ("STS",),
}
OPTION_NAMES: dict[TextRole, str] = {"query": "query_prompt", "document": "document_prompt", "": "text_prompt"}
INSTRUCTOR = "hkunlp/instructor-"  # published before `include_prompt: false`; sentence-transformers knows their names
NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]+")
MAX_LISTED = 8  # names of prompts in a message
# What stands before and after the instruction in the prompts of models that read one: Qwen3-Embedding, E5-mistral and
# their kind, EmbeddingGemma, bge-en-icl.
INSTRUCTION_FORMS = tuple(
    re.compile(f"({before}).*({after})", re.DOTALL)
    for before, after in ((r"Instruct: ", r"\nQuery: ?"), (r"task: ", r" \| query: "), (r"<instruct>", r"\n<query>"))
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The text that is put before a text of each role; empty for none.

    Attributes:
        query: prompt of queries.
        document: prompt of documents.
        text: prompt of texts that are neither.
        declared: whether the checkpoint declares any prompt.
        unplaced: declared prompts, if queries or documents get none of them, that may be meant for those.
    """

    query: str = ""
    document: str = ""
    text: str = ""
    declared: bool = False
    unplaced: tuple[str, ...] = ()

    def of(self, role: TextRole) -> str:
        return {"query": self.query, "document": self.document, "": self.text}[role]

    @property
    def by_role(self) -> dict[str, str]:
        """The prompt of each role, with "text" for texts that are neither; empty for a model without prompts."""
        prompts = {"query": self.query, "document": self.document, "text": self.text}
        return prompts if self.declared or any(prompts.values()) else {}

    def describe(self) -> JSON:
        """Return the prompts for the record; empty for a model without prompts."""
        return {"prompts": self.by_role} if self.by_role else {}

    def canonical(self, request: Text) -> Text:
        """Return the text with the first of the roles that have its prompt, since a model reads them alike."""
        prompt = self.of(request.role)
        role = next(role for role in OPTION_NAMES if self.of(role) == prompt)
        return request if role == request.role else replace(request, role=role)

    def options(self) -> dict[str, str]:
        """Return the options that give a model these prompts, for its figeval.json; empty without prompts."""
        return {name: self.of(role) for role, name in OPTION_NAMES.items()} if self.by_role else {}

    def identity(self, fingerprint: str) -> str:
        """Return the fingerprint of a model that reads these prompts; without prompts, it is the given one."""
        description = self.describe()
        return f"{fingerprint} {json.dumps(description)}" if description else fingerprint

    def warnings(self, model: str, flag: str = "--model_args") -> list[str]:
        """Return a warning if the model declares a prompt that should perhaps have been read, otherwise nothing.

        `flag` is the one that takes the options which settle it.
        """
        if not self.unplaced:
            return []
        unprompted = [name for name, prompt in (("queries", self.query), ("documents", self.document)) if not prompt]
        options = [OPTION_NAMES["query" if name == "queries" else "document"] for name in unprompted]
        texts = " and ".join(unprompted)
        return [
            f"{model} declares the {_quote_names('prompt', self.unplaced)}, but none that is known to be for {texts}, "
            f"which are read without a prompt; name theirs with {flag} "
            f"{','.join(f'{option}=NAME' for option in options)}, or confirm that they have none with "
            f"{','.join(f'{option}=' for option in options)}"
        ]


def check_prompts(prompt_options: Mapping[TextRole, object], instruction: object = None) -> None:
    """Raise `ModelError` unless every given prompt is a text, and the instruction one that no prompt contradicts."""
    for role, prompt in prompt_options.items():
        if not isinstance(prompt, str | None):
            raise ModelError(f"{OPTION_NAMES[role]}={prompt!s:.80} is not a text; leave it empty for no prompt")
    if instruction is not None and not (isinstance(instruction, str) and instruction.strip()):
        raise ModelError(f"instruction={instruction!s:.80} is not a text that says what to do; leave it out")
    if instruction is not None and prompt_options.get("query") is not None:
        raise ModelError("query_prompt= is the whole prompt, with its instruction; leave instruction= out")


def place_prompts(
    checkpoint: Checkpoint, prompt_options: Mapping[TextRole, str | None], instruction: str | None = None
) -> Prompts:
    """Return the prompts of a checkpoint by role.

    Args:
        checkpoint: the model.
        prompt_options: for each role the name of a declared prompt, the text of another one, or None for the
            declared one.
        instruction: what the prompt of queries, and of texts that are neither, says in the place of the declared
            instruction; None for that one.

    Raises:
        ModelError: the checkpoint's prompts are no texts by name, a given name is not among them, or none of them has a
            place for an instruction.
    """
    declared, default = declared_prompts(checkpoint)
    prompts = dict(prompt_options)
    if instruction is not None:
        prompts["query"] = instruct(declared, instruction, checkpoint.model)
        prompts[""] = prompts["query"] if prompt_options.get("") is None else prompt_options[""]
    by_role = {role: next(filter(None, map(declared.get, names)), "") for role, names in PROMPT_NAMES.items()}
    by_user = {role: _resolve_prompt(role, prompt, declared, checkpoint) for role, prompt in prompts.items()}
    query, document = (by_role[role] if by_user[role] is None else str(by_user[role]) for role in ("query", "document"))
    of_roles = {"query": query, **dict.fromkeys(PROMPT_NAMES["document"], document)}
    set_by_user = by_user["query" if default == "query" else "document"] is not None and default in of_roles
    of_default = of_roles[default] if set_by_user else declared.get(default) or of_roles.get(default, "")
    text = by_user[""] if by_user[""] is not None else by_role[""] or of_default or (query if document else "")

    undecided = [role for role in ("query", "document") if by_user[role] is None and not by_role[role]]
    known_names = {name for names in PROMPT_NAMES.values() for name in names} if undecided else set(declared)
    unplaced = tuple(name for name, prompt in declared.items() if prompt and name not in known_names)
    return Prompts(query, document, text, any(declared.values()), unplaced)


def place_pair_prompt(checkpoint: Checkpoint, query_prompt: str | None) -> Prompts:
    """Return the prompt that a cross-encoder reads before the first text of a pair, as that of queries.

    It is `query_prompt` (a name or a text), or else the default prompt, as in `predict` of sentence-transformers.

    Raises:
        ModelError: what `place_prompts` raises.
    """
    declared, default = declared_prompts(checkpoint)
    prompt = _resolve_prompt("query", query_prompt, declared, checkpoint)
    query = declared.get(default, "") if prompt is None else prompt
    return Prompts(query, declared=any(declared.values()))


def instruct(declared: Mapping[str, str], instruction: str, model: str) -> str:
    """Return the declared prompt of queries, or else the first that has an instruction, with another instruction.

    Raises:
        ModelError: no declared prompt has one.
    """
    for prompt in (declared.get("query", ""), *declared.values()):
        for form in INSTRUCTION_FORMS:
            if match := form.fullmatch(prompt):
                return f"{match[1]}{instruction}{match[2]}"
    raise ModelError(
        f"{model!r} declares no prompt with a place for an instruction; give the whole prompt as its documentation has "
        'it, e.g. --model_args \'{"query_prompt": "Instruct: …\\nQuery: "}\''
    )


def declared_prompts(checkpoint: Checkpoint) -> tuple[dict[str, str], str]:
    """Return the prompts that a checkpoint declares, and the name of its default prompt, empty if it has none.

    Raises:
        ModelError: the prompts are not texts by name, or the default is none of them.
    """
    sentence = checkpoint.sentence or {}
    if not isinstance(sentence, dict):
        raise ModelError(f"{SENTENCE} of {checkpoint.model!r} is no JSON object; correct the file")
    prompts, default = sentence.get("prompts") or {}, sentence.get("default_prompt_name") or ""
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str | None) for prompt in prompts.values()):
        raise ModelError(f"{SENTENCE} of {checkpoint.model!r}: 'prompts' must be an object of texts; correct the file")
    if default and (not isinstance(default, str) or default not in {*prompts, "query", "document"}):
        raise ModelError(
            f"{SENTENCE} of {checkpoint.model!r}: the default prompt {str(default)!r:.80} is not among its prompts; "
            "correct the file"
        )
    return {name: prompt or "" for name, prompt in prompts.items()}, default


def _resolve_prompt(
    role: TextRole, prompt: str | None, declared: Mapping[str, str], checkpoint: Checkpoint
) -> str | None:
    """Return the text of a given prompt, which may be the name of a declared one.

    A model that figeval trained has texts in its figeval.json, even where one looks like a name.

    Raises:
        ModelError: it looks like a name, which would be glued to the text, but there is no such prompt.
    """
    if prompt and prompt in declared:
        return declared[prompt]
    trained_prompt = checkpoint.declared.get(OPTION_NAMES[role]) if "about" in checkpoint.declared else None
    if prompt and prompt != trained_prompt and NAME_PATTERN.fullmatch(prompt):
        names = [name for name, text in declared.items() if text]
        has = f"it has the {_quote_names('prompt', names)}" if names else "it has none"
        raise ModelError(
            f"{OPTION_NAMES[role]}={prompt:.80}: {checkpoint.model!r} declares no prompt of this name ({has})"
            f"{near(prompt, names)}; "
            f"the text of a prompt ends with a blank or a sign, e.g. '{OPTION_NAMES[role]}=query: '"
        )
    return prompt


def _quote_names(noun: str, names: tuple[str, ...] | list[str]) -> str:
    """Return names from a file in quotation marks, after the noun for them."""
    quoted = ", ".join(repr(clean(name))[:80] for name in names[:MAX_LISTED])
    remainder = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {quoted}{remainder}"
