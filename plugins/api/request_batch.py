"""Concurrent requests: adaptive concurrency, retries with back-off, a circuit breaker and a budget.

The number of pending requests adapts to the server (additive increase, multiplicative decrease): it halves when the
server reports that we send too fast, and grows by one with every so many answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from figeval.errors import FigevalError, ModelError
from figeval.io.observer import report_share
from figeval.types import Reply

from .archive import Archive, PaidAnswer, Usage, pack
from .budget import ApiCall, Budget
from .client import Client, ForbiddenError, PermanentError, RetryableError, pause_seconds
from .dialects import DialectAnswer

if TYPE_CHECKING:
    from httpx import AsyncClient

MAX_FAILURES = 20  # consecutive failures after which no more requests are sent
MAX_FIRST_FORBIDDEN = 8  # consecutive 403 that show a wrong key if no request has succeeded


@dataclass(slots=True)
class ApiSession:
    """Counts of everything that happened since the model was opened."""

    width: float  # number of requests that may be pending
    narrowest: int
    sent: int = 0
    answered: int = 0
    from_memo: int = 0
    faults: Counter[str] = field(default_factory=Counter)  # attempts worth repeating, by status or kind
    failed: int = 0
    consecutive_failures: int = 0
    last_failure: str = ""
    complete: int = 0  # replies that ended by themselves
    thought: int = 0  # of these, those with a sign of thinking
    unheld: int = 0  # of these, those that do not keep to the format of --constrain
    extended: int = 0  # requests that were asked again with more room for thinking
    models: set[str] = field(default_factory=set)  # names by the server of the models that answered

    def note(self, answer: DialectAnswer) -> None:
        """Count an answer."""
        self.answered += 1
        self.consecutive_failures = 0
        if answer.model:
            self.models.add(answer.model)

    def note_failure(self, reason: str) -> None:
        """Count a request that got no answer."""
        self.failed += 1
        self.consecutive_failures += 1
        self.last_failure = reason

    def note_forbidden(self, reason: str) -> None:
        """Count a request that got a 403."""
        self.consecutive_failures += 1
        self.last_failure = reason

    @property
    def broken(self) -> bool:
        """True if more requests would only waste time and money."""
        return self.consecutive_failures >= MAX_FAILURES


class RequestBatch:
    """A batch of calls, processed by up to `max_concurrent` workers.

    Args:
        client: client of the server.
        session: statistics, and the number of requests that may be pending.
        budget: what may be spent.
        archive: archive of replies.
        per_reply: share of the call of the model that a reply is, for displays of progress.
    """

    def __init__(
        self, client: Client[Any], session: ApiSession, budget: Budget, archive: Archive, per_reply: float = 0.0
    ) -> None:
        self.client = client
        self.settings = client.settings
        self.session = session
        self.budget = budget
        self.archive = archive
        self.per_reply = per_reply
        self.replies: dict[str, Reply] = {}
        self._held: dict[str, Usage] = {}  # key of a pending request → what is reserved for it
        self._changed = asyncio.Condition()
        self._fatal: FigevalError | None = None
        self._forbidden: ForbiddenError | None = None  # the first 403 that may be about the key
        self._unwritten: list[PaidAnswer] = []
        self._writing = asyncio.Lock()

    async def run(self, calls: Sequence[ApiCall]) -> dict[str, Reply]:
        """Return the reply to every call by key; a call without an answer gets a reply that ended by `error`.

        Raises:
            ModelError: the server would answer no request at all.
            BudgetExhausted: the budget has no room for the next request.
        """
        waiting = deque(calls)
        async with self.client.open_connection() as http:
            count = min(len(calls), self.settings.max_concurrent)
            await asyncio.gather(*(self._work(http, waiting) for _ in range(count)))
        if self._fatal is not None:
            raise self._fatal
        if self._forbidden is not None and not self.has_succeeded:
            raise self._forbidden
        return self.replies

    async def _work(self, http: AsyncClient, waiting: deque[ApiCall]) -> None:
        while waiting and self._fatal is None:
            call = waiting.popleft()
            try:
                self.replies[call.key] = await self._process_call(http, call)
                report_share(self.per_reply)
            except FigevalError as error:  # the other workers finish what they have begun, since it is paid for
                self._fatal = self._fatal or error

    async def _process_call(self, http: AsyncClient, call: ApiCall) -> Reply:
        await self._enter(call)
        try:
            if self.session.broken:
                return error_reply(
                    f"not sent: {MAX_FAILURES} consecutive requests had failed ({self.session.last_failure})"
                )
            return await self._fetch_reply(http, call)
        finally:
            await self._leave(call)

    async def _enter(self, call: ApiCall) -> None:
        """Wait until server and budget have room, and reserve the most that a request can use."""
        async with self._changed:
            while self._must_wait() or not self.budget.allows(self.budget.max_usage(call)):
                if not self._held:  # nobody is left who could release a reservation
                    raise self.budget.exhaustion_error()
                await self._changed.wait()
            self._held[call.key] = self.budget.max_usage(call)
            self.budget.reserved += self._held[call.key]

    def _must_wait(self) -> bool:
        """Return whether another request has to wait. Under a budget, the first one goes alone to show the price."""
        width = 1 if self.budget.needs_count else int(self.session.width)
        return len(self._held) >= width

    async def _leave(self, call: ApiCall) -> None:
        async with self._changed:
            self.budget.reserved -= self._held.pop(call.key, Usage())
            self._changed.notify_all()

    async def _fetch_reply(self, http: AsyncClient, call: ApiCall) -> Reply:
        """Return the reply after as many attempts as necessary or allowed."""
        try:
            answer = await self._persist(http, call)
        except PermanentError as failure:
            self.session.note_failure(str(failure))
            if self.session.broken and not self.session.answered:
                raise ModelError(
                    f"{MAX_FAILURES} requests in a row failed and none was answered; the last one: {failure}"
                ) from None
            return error_reply(str(failure))
        except ForbiddenError as failure:
            return self._record_refusal(failure)
        self.session.note(answer)
        self.session.width = min(self.settings.max_concurrent, self.session.width + 1 / self.session.width)
        await self._store(call, answer)
        return answer.reply

    def _record_refusal(self, failure: ForbiddenError) -> Reply:
        """Return a 403 as a refusal of this request, which it is if another one succeeds (see `run`).

        It is not stored, because the server does not say that it is about the question.

        Raises:
            ForbiddenError: there were too many in a row.
        """
        self.session.note_forbidden(failure.server_message)
        if self.session.consecutive_failures >= (MAX_FAILURES if self.has_succeeded else MAX_FIRST_FORBIDDEN):
            raise failure
        self._forbidden = self._forbidden or failure
        return Reply(text="", finish="refusal", error=failure.server_message)

    @property
    def has_succeeded(self) -> bool:
        """True if a request of this run was answered, so that the key permits what is asked."""
        return bool(self.session.answered or self.session.from_memo or self.budget.spent.total)

    async def _store(self, call: ApiCall, answer: DialectAnswer) -> None:
        """Charge the cost of an answer, and store it if it is of use. Raises `ModelError` if it is of none."""
        if answer.usage is None:
            usage = self.budget.count_unreported(call, answer.reply)
        else:
            usage = answer.usage
            self.budget.learn(call, usage)
        packed_reply = None
        try:
            packed_reply = pack(answer.reply) if self.settings.memo and call.may_keep(answer.reply) else None
        finally:
            await self._write(PaidAnswer(usage, call.key, packed_reply))

    async def _persist(self, http: AsyncClient, call: ApiCall) -> DialectAnswer:
        attempts = self.settings.max_retries + 1
        for attempt in range(attempts):
            if self._fatal is not None:
                raise self._fatal
            try:
                self.session.sent += 1
                return await self.client.attempt(http, call.body)
            except RetryableError as failure:
                await self._learn(failure, call)
                if attempt + 1 == attempts:
                    raise PermanentError(f"{failure} (after {attempts} attempts)") from None
                await asyncio.sleep(pause_seconds(attempt, failure.wait))
        raise AssertionError("the last attempt returns or raises")

    async def _learn(self, failure: RetryableError, call: ApiCall) -> None:
        """Record a failed attempt: send less often if the server is crowded, and count what may be billed."""
        self.session.faults[failure.kind] += 1
        if failure.crowded:
            self.session.width = max(1.0, self.session.width / 2)
            self.session.narrowest = min(self.session.narrowest, int(self.session.width))
        if failure.lost or failure.spent:
            await self._write(PaidAnswer(failure.spent or self.budget.count_lost(call)))
            if self.budget.bounded:  # another attempt may cost as much again, for which there must be room
                await self._leave(call)
                await self._enter(call)

    async def _write(self, entry: PaidAnswer) -> None:
        """Return when the entry is on disk. Waiting entries are committed together, because every commit takes time."""
        self._unwritten.append(entry)
        async with self._writing:
            if entry in self._unwritten:  # otherwise another worker has written it already
                entries, self._unwritten = self._unwritten, []
                self.budget.spent = await asyncio.to_thread(self.archive.record, self.settings.account, entries)


def error_reply(reason: str) -> Reply:
    """Return a reply that ended by `error` and gives the reason."""
    return Reply(text="", finish="error", error=reason)
