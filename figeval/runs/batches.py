"""All questions of a run together, for models that are asked through a batch API (`--batch`).

A batch should hold the whole run, but a route knows its second question only after the first reply. So the dialogues of
all missing examples are advanced as far as the replies go that have been collected, and the questions at which they
stop are submitted together. A run whose routes ask once has one batch, one whose routes ask twice has two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from figeval.records.run_folder import RunFolder
from figeval.runs.evaluate import missing_examples
from figeval.runs.plan import Plan
from figeval.task_types.routes import Dialogue
from figeval.types import Prompt, Reply, Request

AT_ONCE = 1024  # examples


class BatchedBackend(Protocol):
    """A model that is asked in batches."""

    def known_replies(self, requests: Sequence[Prompt], /) -> list[Reply | None]:
        """Return the replies that have been collected, or None for each request that has none yet."""

    def submit(self, requests: Sequence[Prompt], /) -> None:
        """Submit the requests that have no reply; return once all have one, or raise `NotFinished`."""


def answer_in_batches(backend: BatchedBackend, plans: Iterable[Plan], folder: RunFolder) -> None:
    """Submit the questions about all missing examples; return once the model has replied to all of them.

    Raises:
        NotFinished: a batch is being processed.
        ModelError: the server does not accept a batch, or cannot be reached.
    """
    plans = list(plans)
    while open_questions := list(
        dict.fromkeys(prompt for plan in plans for prompt in unanswered(backend, plan, folder))
    ):
        backend.submit(open_questions)


def unanswered(backend: BatchedBackend, plan: Plan, folder: RunFolder) -> Iterator[Prompt]:
    """Yield the questions of a task that have no reply yet and do not depend on one."""
    examples = missing_examples(plan, folder)
    while chunk := list(islice(examples, AT_ONCE)):
        dialogues = [OpenDialogue(plan.route.begin(plan.asked(example), plan.context)) for example in chunk]
        while dialogues := [dialogue for dialogue in dialogues if dialogue.requests]:
            prompts = [request for dialogue in dialogues for request in dialogue.requests]
            replies = dict(zip(prompts, backend.known_replies(prompts), strict=True))
            yield from (prompt for prompt, reply in replies.items() if reply is None)
            for dialogue in dialogues:
                dialogue.advance([replies[request] for request in dialogue.requests])


class OpenDialogue:
    """A dialogue about an example, and the questions at which it has stopped; none once it goes no further here.

    An error of a reader or a route ends it silently: the run itself meets the same error, and reports it.
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
