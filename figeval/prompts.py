"""The rendering of examples as text: prompt templates, the solved examples before a question, and the conversation.

A template is a file of named Jinja blocks, each rendered separately and exactly as written: `context` and
`continuation` are for a left-to-right model, `cloze` for one that reads both sides; see `templates/_default/` for the
smallest ones. White space is the author's responsibility: a continuation includes its leading blank.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from jinja2 import FunctionLoader, Template, nodes
from jinja2.exceptions import TemplateNotFound
from jinja2.meta import find_referenced_templates, find_undeclared_variables

from figeval.errors import MissingTemplate, TaskError
from figeval.io.files import TEMPLATES, read_template
from figeval.io.sandbox import MAX_SOURCE_CHARS, EvaluationError, MissingValue, compiling, environment, evaluating
from figeval.io.steps import join_pieces
from figeval.io.text import near, pluralize
from figeval.language.questions import question_keys
from figeval.types import AnswerFormat, Continuation, Example, Message, Prompt, plain_text

Chat: TypeAlias = Callable[[Sequence[Message]], str]
Format: TypeAlias = "Callable[[Any, PromptContext], AnswerFormat]"
Index: TypeAlias = Mapping[Hashable, Sequence[int]]  # what examples ask → the indices of those that ask it
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # names of the options, in the order shown


# ---- templates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The blocks of one template file."""

    name: str
    sha256: str
    compiled: Template
    names: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)  # block → variables of its text

    @property
    def blocks(self) -> frozenset[str]:
        """Names of the blocks that the file defines."""
        return frozenset(self.compiled.blocks)

    def render(self, block: str, variables: Mapping[str, Any]) -> str:
        """Return one block as text.

        Raises:
            TaskError: the block or a variable does not exist, or the sandbox forbids something.
        """
        if block not in self.compiled.blocks:
            raise TaskError(f"template {self.name} has no block {block!r}{near(block, self.compiled.blocks)}")
        location = f"template {self.name}, block {block!r}"
        try:
            with evaluating(location):
                context = self.compiled.new_context(dict(variables))
                return join_pieces(self.compiled.blocks[block](context))
        except MissingValue as error:
            raise TaskError(f"{location}: {error}{_cure_missing(error, variables)}") from error
        except (LookupError, EvaluationError) as error:
            raise TaskError(f"{location}: {error}") from error

    def render_option(self, block: str, option: str) -> str | None:
        """Return a block as text if it depends on nothing but the option, else None.

        All examples of a ranking task have the same options, so these texts are remembered.
        """
        return _render_block(self, block, option) if self.names.get(block, frozenset()) == {"option"} else None


def _cure_missing(error: MissingValue, variables: Mapping[str, Any]) -> str:
    """Return which variables a block has, and similar ones, if it lacks one of them."""
    if error.holder is not None:
        return ""
    return f"; there are {', '.join(sorted(variables))}{near(str(error.key), variables, cutoff=0.6)}"


@lru_cache(maxsize=100_000)
def _render_block(template: PromptTemplate, block: str, option: str) -> str:
    return template.render(block, {"option": option})


def variables(example: Example) -> dict[str, Any]:
    """Return the variables of an example in templates: its fields, `meta` included."""
    kind: Any = type(example)  # for mypy, the class is no more hashable than its instances
    return {name: getattr(example, name) for name in _variable_names(kind)}


@lru_cache
def _variable_names(kind: type[Example]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "prompted")


def load_template(name: str, folder: Traversable | str | None = None) -> PromptTemplate:
    """Read and compile a template; `folder` is that of the task that names it.

    Raises:
        TaskError: there is no such file, or it is not a Jinja template.
    """
    root = Path(folder) if isinstance(folder, str) else folder

    def read(template_name: str) -> str | None:
        return read_template(template_name, root, MAX_SOURCE_CHARS)

    with compiling(f"template {name:.200}"):
        try:
            sources = _sources(name, read, {})
            if any(None in _parts(source)[0] for source in sources.values()):
                compiled = environment(FunctionLoader(read)).get_template(name)
            else:
                compiled = _compile_template(name, tuple(sources.items()))
        except TemplateNotFound as error:
            raise MissingTemplate(str(error)) from error
    digest = hashlib.sha256("\0".join(sources.values()).encode()).hexdigest()
    return PromptTemplate(name, digest, compiled, _parts(sources[name])[1])


def builtin_templates() -> list[str]:
    """Return the names of the built-in templates, as task files and `--template` write them."""
    root = files(TEMPLATES)
    folders = (folder for folder in root.iterdir() if folder.is_dir())
    names = (f"{folder.name}/{file.name}" for folder in folders for file in folder.iterdir())
    return sorted(name for name in names if name.endswith(".jinja"))


def _sources(name: str, read: Callable[[str], str | None], sources: dict[str, str]) -> dict[str, str]:
    """Return the texts of a template and of all that it includes or imports, whose digest detects any change."""
    if name not in sources:
        if (source := read(name)) is None:
            raise TemplateNotFound(name)
        sources[name] = source
        for other in _parts(source)[0]:
            if other is not None:
                _sources(other, read, sources)
    return sources


@lru_cache(maxsize=1024)
def _parts(source: str) -> tuple[tuple[str | None, ...], dict[str, frozenset[str]]]:
    """Return the templates that a text refers to (None: a name computed at run time), and the names in its blocks.

    A block that includes or imports something is missing, because its names are in other files. What a template defines
    outside of its blocks counts as a name of the blocks that use it.
    """
    parsed = environment().parse(source)
    names = {
        block.name: frozenset(find_undeclared_variables(nodes.Template([block], environment=parsed.environment)))
        for block in parsed.find_all(nodes.Block)
        if not any(block.find(node) for node in (nodes.Include, nodes.Import, nodes.FromImport))
    }
    return tuple(find_referenced_templates(parsed)), names


@lru_cache(maxsize=1024)
def _compile_template(name: str, sources: tuple[tuple[str, str], ...]) -> Template:
    """Compile a template once; `sources` are the texts of all files that it may read."""
    return environment(FunctionLoader(dict(sources).get)).get_template(name)


# ---- solved examples -------------------------------------------------------------------------------------------------


class SolvedExamples(Protocol):
    """Selects the solved examples of each question."""

    def before(self, question: Any) -> Sequence[Any]:
        """Return the examples to show before a question."""


@dataclass(frozen=True)
class Leaks:
    """Finds the examples of a pool that would give away the answer to a question.

    These are the examples with its id, those of its cluster (a text about the same expression), and those that ask the
    same.

    Attributes:
        pool: examples with visible answers.
        originals: function that returns the questions as they stand in the data. A probe changes what a question asks
            but not its answer, so examples that ask the same as the original are found by its id.
        keys: function that returns what identifies an example's question; those that share a key ask the same.
        index: `index_of` the pool, if it is known.
    """

    pool: Sequence[Example]
    originals: Callable[[], Iterable[Example]] = tuple
    keys: Callable[[Example], Iterable[Hashable]] = question_keys
    index: Index | None = field(default=None, repr=False)

    def of(self, question: Example) -> set[int]:
        """Return the indices in the pool of the examples that may not be shown before a question."""
        names = [("id", question.id), ("cluster", question.cluster), *self.keys(question)]
        return self._union(names).union(self._repeats.get(question.id, ()))

    def repeats(self, question: Example) -> set[int]:
        """Return the indices in the pool of the examples that ask the same as a question."""
        return self._union(self.keys(question))

    def _union(self, names: Iterable[Hashable]) -> set[int]:
        return set[int]().union(*(self._places.get(name, ()) for name in names))

    @cached_property
    def _places(self) -> Index:
        return index_of(self.pool, self.keys) if self.index is None else self.index

    @cached_property
    def _repeats(self) -> dict[str, set[int]]:
        """The indices of the examples that ask the same as an original, by its id; most originals have none."""
        repeats = ((original.id, self.repeats(original)) for original in self.originals())
        return {name: indices for name, indices in repeats if indices}


def index_of(pool: Sequence[Example], keys: Callable[[Example], Iterable[Hashable]]) -> Index:
    """Return the indices of examples by id, by cluster and by each of their keys."""
    indexes: dict[Hashable, list[int]] = defaultdict(list)
    for index, example in enumerate(pool):
        cluster = [] if example.cluster is None else [("cluster", example.cluster)]
        for name in (("id", example.id), *cluster, *keys(example)):
            indexes[name].append(index)
    return dict(indexes)


@dataclass(frozen=True)
class Shots:
    """Solved examples: k of the training split, in a random order.

    Every question has an order of its own, from (seed, question id), or all share one (`shared`), so that nearly all
    prompts have the same prefix, which a model may compute once. A question of a task with rows in several languages
    gets examples in its own language, if the split has any. Examples that would give away the answer are skipped
    (`Leaks`), and the next ones of the order are shown instead.

    Attributes:
        pool: examples with visible answers.
        k: number of examples before each question.
        seed: seed of the order.
        shared: whether all questions share one order.
        originals: function that returns the questions as they stand in the data (`Leaks`).
        keys: function that returns what identifies an example's question (`Leaks`).
        index: `index_of` the pool, if it is known.
    """

    pool: Sequence[Example]
    k: int
    seed: int
    shared: bool = False
    originals: Callable[[], Iterable[Example]] = tuple
    keys: Callable[[Example], Iterable[Hashable]] = question_keys
    index: Index | None = field(default=None, repr=False)

    @cached_property
    def leaks(self) -> Leaks:
        """The examples that may not be shown before a question."""
        return Leaks(self.pool, self.originals, self.keys, self.index)

    @cached_property
    def _has_languages(self) -> bool:
        return len({example.language for example in self.pool}) > 1

    def before(self, question: Example) -> list[Example]:
        """Return the examples to show before a question.

        Raises:
            TaskError: fewer than k examples may be shown before it.
        """
        if not self.k:
            return []
        generator = random.Random(str(self.seed) if self.shared else f"{self.seed} {question.id}")
        order: Iterable[int] = drawn_order(len(self.pool), generator)
        if self._has_languages:  # the same language first
            order = sorted(order, key=lambda index: self.pool[index].language != question.language)
        leaks = self.leaks.of(question)
        chosen = list(islice((index for index in order if index not in leaks), self.k))
        if len(chosen) < self.k:
            raise too_few(f"--num_fewshot {self.k}", question.id, len(chosen))
        return [self.pool[index] for index in chosen]


def drawn_order(n: int, generator: random.Random) -> Iterator[int]:
    """Yield the numbers below n as `generator.sample(range(n), n)` orders them, drawn only as far as they are read.

    A pool may be large, and few of its examples are shown before each question.
    """
    moved: dict[int, int] = {}
    for remaining in range(n, 0, -1):
        index = generator.randrange(remaining)
        yield moved.get(index, index)
        moved[index] = moved.get(remaining - 1, remaining - 1)


MAX_NAMED_IDS = 5  # ids of examples that a message names


def too_few(flag: str, question: str, n: int) -> TaskError:
    """Return the error for a question before which only n examples may be shown."""
    return TaskError(
        f"{flag} cannot be met for {question!r:.80}: only {pluralize(n, 'training example')} may be shown before it, "
        "since none may ask the same or come from its cluster; ask for fewer"
    )


# ---- the context of a route ------------------------------------------------------------------------------------------


def no_shots(_example: Any) -> Sequence[Any]:
    """Show no solved examples."""
    return ()


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The prompts of one task as one model reads them, and the task's facts about its answers.

    Attributes:
        block: `block(name, example, **extra)` renders a block of the task's template and nothing around it.
        labels: the labels of the task, in order; the first is the positive one.
        settings: values of the settings that the route declares (`threshold`, `temperature`, …).
        verbalizer: label → words that express it.
        vocabulary: role → words of the task for an `option` and for the `answer` (see `extract_choice`).
        metrics: names of the requested metrics.
        shots: `shots(example)` returns the solved examples to show before it.
        few_shot_answer: `few_shot_answer(block, example, context)` returns the answer to a solved example as the task
            type writes it, or None if the block takes no solved examples.
        system: the system message, or an empty string.
        system_as_user: whether the system message begins the first turn of the user, for chat templates without a
            system role.
        chat: function that formats a conversation with the model's chat template; None if there is no template, or
            only one behind an API.
        has_room: function that says whether requests fit the model; None if the model does not know.
        constrain: whether prompts say what an acceptable answer is.
        stop: texts at which an answer in words ends.
        max_new_tokens: maximum length of an answer in words.
        pool: `pool()` returns the examples of the training split, for routes that answer with one of them.
        indifferent: whether the model has no preference (`chance`), so that its scores are on neither side of a
            threshold and both answers tie.
    """

    block: Callable[..., str]
    labels: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbalizer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vocabulary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: frozenset[str] = frozenset()
    shots: Callable[[Any], Sequence[Any]] = no_shots
    few_shot_answer: Callable[[str, Any, PromptContext], str | None] = lambda _block, _example, _context: None
    system: str = ""
    system_as_user: bool = False
    chat: Chat | None = None
    has_room: Callable[[Sequence[Continuation | Prompt]], bool] | None = None
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 16
    constrain: bool = False
    pool: Callable[[], Sequence[Any]] = tuple
    indifferent: bool = False

    def turns(self, block: str, example: Example, **extra: Any) -> tuple[Message, ...]:
        """Return the conversation that ends with this block: system message, solved examples, question.

        A solved example is a user turn and an assistant turn, which begins as it would continue the user's text.
        """
        turns = []
        for shot in self.shots(example):
            answer = self.few_shot_answer(block, shot, self)
            if answer is not None:
                turns += [Message("user", self.block(block, shot)), Message("assistant", answer)]
        turns.append(Message("user", self.block(block, example, **extra)))
        if not self.system:
            return tuple(turns)
        if not self.system_as_user:
            return (Message("system", self.system), *turns)
        first, *later_turns = turns
        return (Message("user", plain_text((Message("system", self.system), first))), *later_turns)

    def question(self, block: str, example: Example, **extra: Any) -> str:
        """Return the conversation before the answer as one text, for a model that continues it."""
        turns = self.turns(block, example, **extra)
        return plain_text(turns) if self.chat is None else self.chat(turns)

    def prompt(self, block: str, example: Example, answer_format: Format | None = None) -> Prompt:
        """Return the conversation as a request for an answer in words.

        `answer_format(example, context)` is called if answers are constrained.

        A model that merely continues a text is also stopped when it writes the next question itself: at a line that
        begins like the last line of the prompt ("Answer:").
        """
        turns = self.turns(block, example)
        cue = turns[-1].content.rpartition("\n")[2].strip()
        stop = (*self.stop, f"\n{cue}") if self.stop and cue else self.stop
        answer_form = answer_format(example, self) if answer_format is not None and self.constrain else None
        return Prompt(turns, stop, self.max_new_tokens, answer_form)

    def answer_start(self, answer: str) -> str:
        """Return an answer as the model would begin it: no blank separates it from a chat template's header."""
        return answer if self.chat is None else answer.lstrip(" ")

    def words(self, label: str) -> tuple[str, ...]:
        """Return the words for a label: those of the task's verbalizer, else the label itself."""
        return self.verbalizer.get(label, (label,))
