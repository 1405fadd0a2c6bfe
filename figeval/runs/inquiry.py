"""Asking a model about examples, keeping each answer as soon as it is there, and asking later only about the others.

Runs, judges and the measures of contamination ask in the same way. An **inquiry** has the examples, the dialogue that
each begins (that of a route, as a rule), and the ids of the examples that are answered already:

    inquiry = Inquiry(lambda: questions, lambda question: route.begin(question, context), stored_rows.keys)
    inquiry.announce_cost(model)
    for _ in inquiry.answer(model, store):
        ...

A run keeps its rows in a `RunFolder`, anything else in an `AnswerFile`. If the model has a batch API, the questions of
several inquiries are first submitted together (`answer_in_batches`): a batch should hold the whole run, but a route
knows its second question only after the first reply. So the dialogues of all examples are advanced as far as the
replies go that have been collected, and the questions at which they stop are submitted. A run whose routes ask once has
one batch, one whose routes ask twice has two.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from figeval.errors import ExampleError, FolderInUse, PluginError, RecordError
from figeval.io.files import cure, locked
from figeval.io.frontend import notice
from figeval.io.json_files import parse_json
from figeval.models.batching import Answered, BatchScheduler, Memo, Pace
from figeval.models.model import Model
from figeval.records.predictions import drop_torn_line
from figeval.task_types.routes import Dialogue
from figeval.types import Example, Prediction, Prompt, Reply, Request

if TYPE_CHECKING:
    from pydantic import TypeAdapter

E = TypeVar("E", bound=Example)
R = TypeVar("R")
FIRST_CHUNK_EXAMPLES = 16  # what a kill may cost of a model whose speed is not known yet
MAX_OPEN_DIALOGUES = 1024
SECONDS_BETWEEN_SYNCS = 1.0  # a flush to disk may take as long as an answer


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[E]):
    """Examples that a model is asked about.

    Attributes:
        examples: function that yields all examples, with different ids.
        begin: function that begins the dialogue about an example.
        read_answered_ids: function that returns the ids of the examples with a stored answer.
    """

    examples: Callable[[], Iterable[E]]
    begin: Callable[[E], Dialogue]
    read_answered_ids: Callable[[], Container[str]]

    def missing(self) -> Iterator[E]:
        """Yield the examples without an answer."""
        answered_ids = self.read_answered_ids()
        return (example for example in self.examples() if example.id not in answered_ids)

    def first_prompts(self) -> Iterator[Prompt]:
        """Yield the prompts of the first rounds about examples without an answer; later ones depend on replies."""
        for example in self.missing():
            try:
                requests = next(self.begin(example), ())
            except ExampleError:  # the route cannot ask about it
                continue
            yield from (request for request in requests if isinstance(request, Prompt))

    def announce_cost(self, model: Model) -> None:
        """Print on stderr what the missing answers will cost, if the model can estimate that."""
        announce_cost(model, [self])

    def answer(
        self, model: Model, store: Callable[[E, Prediction], None], *, in_batches: bool = False
    ) -> Iterator[int]:
        """Ask about all examples without an answer, and yield 1 for each answer that was stored.

        If no reply arrived (status `error`), nothing is stored, so the next call asks again.

        Args:
            model: the model.
            store: function that stores the answer to an example.
            in_batches: True to ask through the batch API of the model.

        Raises:
            NotFinished: a batch is being processed; the next call collects the answers.
            BaseException: an answer could not be made or stored; all others that came with it are stored.
        """
        if in_batches:
            answer_in_batches(model.backend, [self])
        pace = Pace(size=FIRST_CHUNK_EXAMPLES)
        scheduler = BatchScheduler(model.backend, self.begin, Memo(limit=0), pace)  # nothing recurs
        parts = scheduler.parts(self.missing())
        yield from store_answers(
            ([answered for answered in part if not _has_failed(answered)] for part in parts),
            lambda answered: store(answered.example, answered.prediction),
        )


def _has_failed(answered: Answered) -> bool:
    return isinstance(answered.made, Prediction) and answered.made.status == "error"


def store_answers(
    parts: Iterable[Sequence[Answered]],
    store: Callable[[Answered], None],
    *,
    prepare: Callable[[Sequence[Answered]], None] = lambda _: None,
    set_aside: Callable[[Sequence[Answered]], None] = lambda _: None,
) -> Iterator[int]:
    """Store each answer as soon as it is there, and yield 1 for each.

    If an answer cannot be made or stored, the call ends, but only after the others that came with it are stored.

    Args:
        parts: answers that came together, as `BatchScheduler.parts` yields them.
        store: function that stores an answer.
        prepare: function that is called with a part before its answers are stored.
        set_aside: function that keeps what the model has said where no answer could be stored.

    Raises:
        BaseException: what `prepare`, `store` or a dialogue has raised.
    """
    for part in parts:
        failures: list[BaseException] = []
        try:
            prepare(part)
        except BaseException:
            set_aside(part)
            raise
        for answered in part:
            try:
                store(answered)
            except (RecordError, KeyboardInterrupt):
                raise
            except BaseException as error:  # a library's sys.exit() included
                set_aside([answered])
                failures.append(error)
            else:
                yield 1
        if failures:
            raise failures[0]


def announce_cost(model: Model, inquiries: Iterable[Inquiry[Any]]) -> None:
    """Print on stderr what the missing answers will cost, if the model can estimate that and any is missing."""
    estimate = getattr(model.backend, "estimate", None)
    if estimate is None:
        return
    prompts = (prompt for inquiry in inquiries for prompt in inquiry.first_prompts())
    first = next(prompts, None)
    if first is not None:
        notice(f"{model.name}: {estimate(chain([first], prompts))}")


# ---- batch APIs ------------------------------------------------------------------------------------------------------


class BatchedBackend(Protocol):
    """A model that is asked in batches."""

    def known_replies(self, requests: Sequence[Prompt], /) -> list[Reply | None]:
        """Return the replies that have been collected, or None for each request that has none yet."""

    def submit(self, requests: Sequence[Prompt], /) -> None:
        """Submit the requests that have no reply; return once all have one, or raise `NotFinished`."""


def answer_in_batches(backend: BatchedBackend, inquiries: Sequence[Inquiry[Any]]) -> None:
    """Submit the questions about all missing examples; return once the model has replied to all of them.

    Raises:
        NotFinished: a batch is being processed.
        ModelError: the server does not accept a batch, or cannot be reached.
    """
    while open_questions := list(
        dict.fromkeys(prompt for inquiry in inquiries for prompt in _open_questions(backend, inquiry))
    ):
        backend.submit(open_questions)


def _open_questions(backend: BatchedBackend, inquiry: Inquiry[Any]) -> Iterator[Prompt]:
    """Yield the questions that have no reply yet and do not depend on one."""
    examples = inquiry.missing()
    while chunk := list(islice(examples, MAX_OPEN_DIALOGUES)):
        dialogues = [_OpenDialogue(inquiry.begin(example)) for example in chunk]
        while dialogues := [dialogue for dialogue in dialogues if dialogue.requests]:
            prompts = [request for dialogue in dialogues for request in dialogue.requests]
            replies = dict(zip(prompts, backend.known_replies(prompts), strict=True))
            yield from (prompt for prompt, reply in replies.items() if reply is None)
            for dialogue in dialogues:
                dialogue.advance([replies[request] for request in dialogue.requests])


class _OpenDialogue:
    """A dialogue about an example, and the questions at which it has stopped; none once it goes no further here.

    An error of a reader or a route ends it silently: it is met again, and reported, when the answers are stored.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self.requests: Sequence[Prompt] = ()
        self._step(None)

    def advance(self, replies: Sequence[Reply | None]) -> None:
        """Go on with the replies, or no further if one is missing."""
        if all(reply is not None for reply in replies):
            self._step(replies)
        else:
            self.requests = ()

    def _step(self, replies: Sequence[Any] | None) -> None:
        try:
            requests: Sequence[Request] = next(self._dialogue) if replies is None else self._dialogue.send(replies)
        except Exception:
            self.requests = ()
        else:
            prompts = [request for request in requests if isinstance(request, Prompt)]
            self.requests = prompts if len(prompts) == len(requests) else ()


# ---- answers outside of runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerFile(Generic[R]):
    """A file to which answers are appended, one per line of JSON, so that a kill costs the last line at most.

    Attributes:
        path: the file, which need not exist.
        row_type: type of a line, which pydantic can validate.
        argument: flag or argument that names the folder, for errors.
        remedy: what to do about a damaged file.
    """

    path: Path
    row_type: type[R]
    argument: str = "--output_path"
    remedy: str = "delete the file to ask again"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing the file.

        Raises:
            FolderInUse: another process is writing it.
            RecordError: the folder cannot be written.
        """
        refusal = FolderInUse(f"another process writes {self.path}; wait until it has ended")
        with ExitStack() as stack:
            with cure(self.path.parent, self.argument):
                stack.enter_context(locked(self.path.with_name(f".{self.path.stem}.lock"), refusal))
            yield

    def rows(self) -> Iterator[R]:
        """Yield the rows, without an incomplete last line. Raises `RecordError` if the file is damaged."""
        adapter = self._adapter()
        for number, line in enumerate(self._complete_lines(), start=1):
            try:
                row = adapter.validate_python(parse_json(line))
            except ValueError as error:  # not JSON, or not a row
                raise RecordError(f"{self.path}:{number} is damaged; {self.remedy}") from error
            yield row

    def _complete_lines(self) -> list[bytes]:
        if self.path.exists() and not self.path.is_file():  # reading a pipe may never end
            raise RecordError(f"{self.path} is not a regular file; remove it")
        try:
            return self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(f"{self.path} cannot be read ({error.strerror}); make it readable") from error

    @contextmanager
    def appending(self) -> Iterator[Callable[[R], None]]:
        """Yield a function that appends a row, the first one in place of an incomplete last line.

        The function refuses a row that could not be read again, with a `PluginError`.

        Raises:
            RecordError: no space or no permission; what was already written stays.
        """
        from figeval.io.validation import first_problem

        adapter, last_sync = self._adapter(), time.monotonic()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

        def append(row: R) -> None:
            nonlocal last_sync
            try:
                checked_row = adapter.validate_python(row)
            except ValueError as error:
                raise PluginError(f"{self.path.name}: {first_problem(error)} in a row that was to be kept") from error
            line = (json.dumps(adapter.dump_python(checked_row, mode="json")) + "\n").encode()
            with cure(self.path, self.argument):
                while line:  # an unbuffered write may write only a part
                    line = line[stream.write(line) :]
                if time.monotonic() - last_sync > SECONDS_BETWEEN_SYNCS:
                    os.fsync(stream.fileno())
                    last_sync = time.monotonic()

        with cure(self.path, self.argument):
            stream = os.fdopen(os.open(self.path, flags, 0o666), "ab", buffering=0)
        with stream:
            with cure(self.path, self.argument):
                drop_torn_line(self.path)
            try:
                yield append
            finally:
                with cure(self.path, self.argument):
                    os.fsync(stream.fileno())

    def _adapter(self) -> TypeAdapter[R]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.row_type)
