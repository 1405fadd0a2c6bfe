"""Batching of the requests of many examples: each distinct request is sent once, in one call per capability and round.

Routes are generators that yield requests about one example. `BatchScheduler` runs the generators of a chunk of examples
side by side, round by round, and sends all requests of one round to the model together. `Memo` remembers outputs, so
that recurring requests are computed once.

The size of the chunk adapts to the model's speed. It starts small, so that a slow model loses little when it is killed,
and grows for a fast one, so that batches are large. It is bounded in examples and in requests, so that memory does not
grow with the data. If a model answers part by part (`OutputStream`), examples are finished as soon as their requests
are answered, and the chunk does not shrink.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from figeval.errors import ExampleError, PluginError
from figeval.models.capabilities import Answer, OutputStream, Part, answered_alike, ask_many, capability_of, send
from figeval.registry import a_type
from figeval.types import Example, KeptReply, Many, Prediction, Reply, Request

E = TypeVar("E", bound=Example)
Dialogue = Generator[Sequence[Request], Sequence[Any], Prediction]
Start = Callable[[E], Dialogue]


@dataclass(slots=True)
class Pace:
    """Size of a chunk, adapted to the time that the last one took."""

    size: int = 64
    smallest: int = 1
    largest: int = 4096  # examples
    requests: int = 131_072  # a chunk takes no further example beyond this many requests
    seconds: float = 4.0  # target duration of a chunk

    def adapt(self, elapsed: float, *, may_shrink: bool = True) -> None:
        """Double the size after a quick chunk, halve it after a slow one if it may shrink."""
        if elapsed < self.seconds / 2:
            self.size = min(self.largest, self.size * 2)
        elif may_shrink and elapsed > self.seconds * 2:
            self.size = max(self.smallest, self.size // 2)


@dataclass(slots=True)
class _Pending:
    """An example in progress: its generator, the requests of the current round, and finally its prediction."""

    example: Any
    dialogue: Dialogue
    requests: Sequence[Request] = ()
    prediction: Prediction | None = None
    truncated: bool = False
    straddling: bool = False
    error: BaseException | None = None
    replies: dict[str, KeptReply] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """True if there is a prediction, or an error instead of one."""
        return self.prediction is not None or self.error is not None

    def answered(self) -> Answered:
        """Return the result, once there is one."""
        outcome = self.prediction or self.error
        assert outcome is not None
        return Answered(self.example, self.replies, outcome)

    def receive(self, answers: Sequence[Answer]) -> None:
        """Send the outputs of the last round to the generator. An error in it only ends this example."""
        for request, (output, truncated, straddling) in zip(self.requests, answers, strict=True):
            self.truncated |= truncated
            self.straddling |= straddling
            if is_text(output):
                self.replies[digest_of(request)] = KeptReply(output, truncated)
        try:
            self.advance([answer.output for answer in answers])
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # including sys.exit() in a library
            self.error = error

    def advance(self, outputs: Sequence[Any] | None) -> None:
        """Resume the generator; None starts it. An example that the route cannot ask about ends at once."""
        try:
            self.requests = next(self.dialogue) if outputs is None else self.dialogue.send(outputs)
        except ExampleError as error:
            self.requests = ()
            self.prediction = Prediction(example_id=self.example.id, value=None, status="unasked", error=str(error))
        except StopIteration as stop:
            self.requests = ()
            if not isinstance(stop.value, Prediction):
                raise PluginError(f"a route returned {a_type(stop.value)}; return a figeval.Prediction") from None
            truncated = self.truncated or stop.value.truncated
            straddling = self.straddling or stop.value.straddling
            self.prediction = replace(stop.value, truncated=truncated, straddling=straddling)
        if not isinstance(self.requests, Sequence):
            raise PluginError(f"a route yielded {a_type(self.requests)}; yield a list of requests")


@dataclass(frozen=True, slots=True)
class Answered:
    """Result of a route for one example.

    Attributes:
        example: the example.
        replies: the model's texts, by the `digest_of` their request.
        made: the prediction, or the exception that was raised while the outputs were turned into one.
    """

    example: Any
    replies: Mapping[str, KeptReply]
    made: Prediction | BaseException

    @property
    def prediction(self) -> Prediction:
        """The prediction. Raises the stored exception if there is one instead."""
        if isinstance(self.made, BaseException):
            raise self.made
        return self.made


def is_text(output: object) -> bool:
    """Return whether the model has written a text, which is not to be asked for again."""
    return isinstance(output, str) or (isinstance(output, Reply) and output.finish != "error")


def digest_of(request: Request) -> str:
    """Return a digest that identifies a request without storing its text."""
    return hashlib.sha256(repr(request).encode("utf-8", "surrogatepass")).hexdigest()


class Memo:
    """The outputs of the last `limit` different requests.

    They recur: the 250 proverbs that every narrative is compared with, a premise with several hypotheses, the
    narratives that four tasks share.
    """

    def __init__(self, limit: int = 16_384) -> None:
        self.limit = limit
        self._answers: OrderedDict[Request, Answer] = OrderedDict()
        self._last: tuple[Many, Answer] | None = None

    def get(self, request: Request) -> Answer | None:
        """Return the answer to a request, or None if it is not remembered."""
        answer = self._answers.get(request)
        if answer is not None:
            self._answers.move_to_end(request)
        return answer

    def update(self, answers: Mapping[Request, Answer]) -> None:
        """Remember the answers of a batch and drop the least recently used ones.

        A batch larger than the limit is not kept, since it would push out everything else: of 600,000 pairs none
        recurs soon enough.
        """
        if len(answers) > self.limit:
            return
        self._answers.update(answers)
        while len(self._answers) > self.limit:
            self._answers.popitem(last=False)

    def many(self, backend: object, request: Many) -> Answer:
        """Return the answer to many requests; that to the last ones that recur is remembered."""
        if self._last is not None and self._last[0] == request:
            return self._last[1]
        answer = ask_many(backend, request)
        if request.recurs:
            self._last = request, answer
        return answer

    def clear(self) -> None:
        """Forget everything, because a backend that was fitted again answers differently."""
        self._answers.clear()
        self._last = None


@dataclass(slots=True)
class BatchScheduler:
    """Asks a model about examples along a route and yields their predictions in order.

    Args:
        backend: the model object.
        start: function that starts the generator of one example.
        memo: outputs to reuse, shared with later schedulers of the same model.
        pace: size of the first chunk and its bounds.
        replies: the model's texts from an earlier session, by the `digest_of` their request.
        keep: function that stores the model's texts as soon as they arrive, by the `digest_of` their request; None if
            examples are stored soon enough.
    """

    backend: Any
    start: Start[Any]
    memo: Memo = field(default_factory=Memo)
    pace: Pace = field(default_factory=Pace)
    replies: Mapping[str, KeptReply] = field(default_factory=dict)
    keep: Callable[[Mapping[str, KeptReply]], None] | None = None

    def __post_init__(self) -> None:
        self.pace.smallest = max(self.pace.smallest, getattr(self.backend, "min_batch_size", 1))
        self.pace.size = max(self.pace.smallest, self.pace.size)

    def predictions(self, examples: Iterable[E]) -> Iterator[tuple[E, Prediction]]:
        """Yield (example, prediction) in the order of the examples. Raises the exception of a route that failed."""
        for chunk in self.chunks(examples):
            for answered in chunk:
                yield answered.example, answered.prediction

    def chunks(self, examples: Iterable[E]) -> Iterator[list[Answered]]:
        """Yield the answered examples chunk by chunk, in order.

        An exception while the outputs for one example are turned into a prediction does not affect the others.
        """
        for chunk in self._chunks(examples):
            for _ in self._answers(chunk):
                pass
            yield [pending.answered() for pending in chunk]

    def parts(self, examples: Iterable[E]) -> Iterator[list[Answered]]:
        """Yield the answered examples like `chunks`, but within a chunk as soon as they are answered."""
        for chunk in self._chunks(examples):
            left = chunk
            for answered_in_parts in self._answers(chunk):
                if answered_in_parts and (ended := [pending for pending in left if pending.ended]):
                    left = [pending for pending in left if not pending.ended]
                    yield [pending.answered() for pending in ended]
            if left:
                yield [pending.answered() for pending in left]

    def _chunks(self, examples: Iterable[Any]) -> Iterator[list[_Pending]]:
        """Yield chunks of examples, whose generators have been started."""
        stream = iter(examples)
        while chunk := list(self._open(stream)):
            yield chunk

    def _open(self, stream: Iterator[Any]) -> Iterator[_Pending]:
        """Start the generators of the next chunk."""
        requests = 0
        for example in islice(stream, self.pace.size):
            pending = _Pending(example, self.start(example))
            pending.advance(None)
            yield pending
            requests += sum(len(request) if isinstance(request, Many) else 1 for request in pending.requests)
            if requests >= self.pace.requests:
                break

    def _answers(self, chunk: Sequence[_Pending]) -> Iterator[bool]:
        """Advance all generators of a chunk until each has ended, and adapt the pace.

        Yields, after some answers, whether the model answers part by part. The time that the caller takes meanwhile
        does not count.
        """
        steps, elapsed, streams = self._steps(chunk), 0.0, False
        while True:
            began = time.monotonic()
            in_parts = next(steps, None)
            elapsed += time.monotonic() - began
            if in_parts is None:
                break
            streams |= in_parts
            yield in_parts
        self.pace.adapt(elapsed, may_shrink=not streams)

    def _steps(self, chunk: Sequence[_Pending]) -> Iterator[bool]:
        """Send the requests of round after round, and pass the answers on once an example has all that it asked for."""
        while waiting := [pending for pending in chunk if not pending.ended]:
            answers: dict[Request, Answer] = {}
            for in_parts in self._collect((request for pending in waiting for request in pending.requests), answers):
                complete = [pending for pending in waiting if all(request in answers for request in pending.requests)]
                served = set(map(id, complete))
                waiting = [pending for pending in waiting if id(pending) not in served]
                for pending in complete:
                    pending.receive([answers[request] for request in pending.requests])
                yield in_parts

    def _collect(self, requests: Iterable[Request], answers: dict[Request, Answer]) -> Iterator[bool]:
        """Fill `answers` by request; each distinct request is sent to the backend once.

        Yields, whenever there are further answers, whether the model answers part by part.
        """
        fresh: dict[str, list[Request]] = defaultdict(list)  # capability → requests
        different = dict.fromkeys(requests)
        many = [request for request in different if isinstance(request, Many)]
        alike = answered_alike(self.backend, (request for request in different if not isinstance(request, Many)))
        for request, same in alike.items():
            answer = self.memo.get(request)
            if answer is None and self.replies and (stored := self.replies.get(digest_of(request))):
                answer = Answer(*stored)
            if answer is None:
                fresh[capability_of(request)].append(request)
            else:
                answers.update(dict.fromkeys(same, answer))
        for batch in fresh.values():
            outputs = send(self.backend, batch)
            if in_parts := isinstance(outputs, OutputStream):
                parts = outputs.parts
            else:
                parts = iter([Part(range(len(batch)), outputs.values, outputs.truncated, outputs.straddling)])
            for part in parts:
                answers_by_request = {
                    batch[row]: Answer(value, row in part.truncated, row in part.straddling)
                    for row, value in zip(part.rows, part.values, strict=True)
                }
                self._remember(answers_by_request)
                answers.update(
                    {request: answer for sent, answer in answers_by_request.items() for request in alike[sent]}
                )
                yield in_parts
        for group in many:
            answers[group] = self.memo.many(self.backend, group)
        if many or not fresh:
            yield False

    def _remember(self, answers: Mapping[Request, Answer]) -> None:
        """Remember answers, except a reply that ended with an error: the next attempt may succeed."""
        self.memo.update(
            {request: answer for request, answer in answers.items() if getattr(answer.output, "finish", "") != "error"}
        )
        if self.keep is not None:
            texts = ((request, answer) for request, answer in answers.items() if is_text(answer.output))
            self.keep({digest_of(request): KeptReply(answer.output, answer.truncated) for request, answer in texts})
