"""A model that is asked through a batch API: requests are submitted, left, and collected by a later process.

A request is never sent while a batch that has it may still be answered. Therefore a batch is written down before it is
submitted, and one whose submission was interrupted is first searched at the server. Its label is a digest of its
requests, so that the same requests are recognised by any process.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from figeval.errors import ModelError, NotFinished, RecordError
from figeval.io import observer as progress
from figeval.io.files import locked
from figeval.io.frontend import command, warn
from figeval.io.text import pluralize
from figeval.types import JSON, Prompt, Reply

from .api_model import REJECTED, ApiModel, read_replies
from .archive import PaidAnswer, Usage, archive_file, pack
from .batch_api import BatchApi, BatchResult, BatchState
from .batch_archive import BatchArchive, StoredBatch
from .batch_http import Absent, BatchHttp, Unclear, Unexpected, open_connection
from .budget import ApiCall
from .client import Client, ForbiddenError, PermanentError, RetryableError
from .dialects import ChatDialect
from .request_batch import error_reply
from .thinking import is_cut_off, separate_thoughts

RESULTS_PER_COMMIT = 500
MAX_ATTEMPTS = 3  # batches in which a request may remain without an answer before it counts as failed
BUSY = "another figeval run with the same flags is busy with its batches; run the same command again once it has ended"


def lock_file(account: str) -> Path:
    """Return the file that the process locks which submits and collects the batches of an account."""
    return archive_file().with_name(f"{hashlib.sha256(account.encode()).hexdigest()[:16]}.lock")


def label_of(batch: Sequence[object]) -> str:
    """Return our own name for a batch, given what makes it different from others."""
    return hashlib.sha256(json.dumps(batch).encode()).hexdigest()[:32]


@dataclass(slots=True)
class Pending:
    """A batch that is being processed, and what the server says about it."""

    batch: StoredBatch
    state: BatchState | None  # None: it is not known whether the server has it


class BatchedModel(ApiModel):
    """A model behind an API that is asked in batches."""

    def __init__(self, client: Client[ChatDialect], api: BatchApi) -> None:
        super().__init__(client)
        self.api = api
        self.failed: dict[str, str] = {}  # key of a request → why it got no answer in this session
        self.names: list[str] = []  # ids of the batches of the run

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        """Return one reply per conversation, once all have one.

        Raises:
            NotFinished: a batch is being processed.
            ModelError: the server does not accept a batch, or cannot be reached.
            BudgetExhausted: a batch of a single request would cost more than is left.
            RecordError: the archive cannot be written, or another process is busy with the same batches.
        """
        self.submit(requests)
        replies = [reply for reply in self.known_replies(requests) if reply is not None]
        self.note(replies, requests)
        return replies

    def known_replies(self, requests: Sequence[Prompt]) -> list[Reply | None]:
        """Return the replies that have been collected, or None for each request that has none yet."""
        with self.archive() as archive:
            self.names = archive.submitted(self.settings.account)
            return [reply for reply, _ in self._lookup(archive, requests)]

    def submit(self, requests: Sequence[Prompt]) -> None:
        """Submit the requests that have no reply, and return once all have one. Raises what `generate` raises."""
        while True:
            with self.archive() as archive:
                calls = {call.key: call for _, call in self._lookup(archive, requests) if call is not None}
                if not calls:
                    return
                progress.report_waiting(f"asking {self.client.endpoint.host} about batches")
                with (
                    locked(lock_file(self.settings.account), RecordError(BUSY)),
                    open_connection(self.client) as connection,
                ):
                    self._settle(archive, BatchHttp(self.client, connection), calls)

    def describe(self) -> JSON:
        """Return the description of the model, with the ids of its batches."""
        names = [self.client.endpoint.scrub(name) for name in self.names]
        return {**super().describe(), **({"batches": names} if names else {})}

    # ---- replies ----------------------------------------------------------------------------------------------------

    def _lookup(
        self, archive: BatchArchive, requests: Sequence[Prompt]
    ) -> Iterator[tuple[Reply | None, ApiCall | None]]:
        """Yield for each request its reply, or the call that has to be answered first."""
        thinking = self.settings.thinking
        calls = [self.call(request, thinking) for request in requests]
        replies = self._answers(archive, calls)
        extended_calls = [
            self.call(request, thinking.extended) if thinking is not None and self._is_short(replies, call) else None
            for request, call in zip(requests, calls, strict=True)
        ]
        replies |= self._answers(archive, [call for call in extended_calls if call is not None])
        for request, call, extended_call in zip(requests, calls, extended_calls, strict=True):
            if call.key not in replies:
                yield None, call
            elif extended_call is None:
                yield self.clean_reply(replies[call.key], request, thinking), None
            elif extended_call.key not in replies:
                yield None, extended_call
            elif replies[extended_call.key].error.startswith(REJECTED):
                yield self.clean_reply(replies[call.key], request, thinking), None
            else:
                yield self.clean_reply(replies[extended_call.key], request, thinking), None

    def _answers(self, archive: BatchArchive, calls: Sequence[ApiCall]) -> dict[str, Reply]:
        """Return the replies to calls that have one, by key; errors of this session among them."""
        keys = {call.key for call in calls}
        return {key: error_reply(self.failed[key]) for key in keys & self.failed.keys()} | read_replies(archive, keys)

    def _is_short(self, replies: Mapping[str, Reply], call: ApiCall) -> bool:
        """Return whether a reply was cut off while the model thought, so that it is asked for once more."""
        thinking, reply = self.settings.thinking, replies.get(call.key)
        if thinking is None or not thinking.on or reply is None:
            return False
        return is_cut_off(separate_thoughts(reply, thinking))

    # ---- batches ----------------------------------------------------------------------------------------------------

    def _settle(self, archive: BatchArchive, http: BatchHttp, calls: Mapping[str, ApiCall]) -> None:
        """Collect what has ended, and submit what no batch has. Raises `NotFinished` if a batch is being processed."""
        account = self.settings.account
        pending = [
            entry
            for batch in archive.open_batches(account)
            if (entry := self._observe(archive, http, batch)) is not None
        ]
        waiting, replies = archive.waiting(account), read_replies(archive, calls)
        self.budget.open(archive.spent(account), archive.batched(account), sum(waiting.values(), Usage()))
        unsent_calls = [
            call for key, call in calls.items() if key not in waiting and key not in replies and key not in self.failed
        ]
        for part in self._parts(unsent_calls):
            pending.append(self._submit_calls(archive, http, part))
        self.names = archive.submitted(account)
        if pending:
            raise NotFinished(self._format_progress(pending))

    def _parts(self, calls: Sequence[ApiCall]) -> Iterator[list[ApiCall]]:
        """Yield the calls in parts that a batch can hold, as far as the budget allows.

        Raises:
            BudgetExhausted: the budget has no room for the first of them.
        """
        part: list[ApiCall] = []
        size = 0
        for call in calls:
            likely = self.budget.max_usage(call)
            if not self.budget.allows(likely):
                if not (part or self.budget.waiting.total):
                    raise self.budget.exhaustion_error()
                break
            self.budget.waiting += likely
            if part and (len(part) == self.api.most_requests or size + len(call.body) > self.api.most_bytes):
                yield part
                part, size = [], 0
            part.append(call)
            size += len(call.body) + len(call.key) + 100  # with what surrounds it in the file
        if part:
            yield part

    def _submit_calls(self, archive: BatchArchive, http: BatchHttp, calls: Sequence[ApiCall]) -> Pending:
        account, keys = self.settings.account, [call.key for call in calls]
        number = archive.count(account)
        while archive.has(label := label_of([account, self.client.url, number, sorted(keys)])):
            number += 1  # one that never reached the server is no longer counted, and these requests had this number
        archive.begin(label, account, self.client.url, {call.key: self.budget.max_usage(call) for call in calls})
        batch = next(open_batch for open_batch in archive.open_batches(account) if open_batch.label == label)
        try:
            name, is_guess = self._create(archive, http, batch, calls)
        except (Absent, Unexpected, ModelError) as failure:
            archive.never_created(label)
            raise self._submission_error(failure) from None
        if not name:
            return Pending(batch, None)
        archive.created(label, name, guessed=is_guess)
        self.session.sent += len(calls)
        return Pending(replace(batch, name=name), BatchState(ended=False, done=0, total=len(calls)))

    def _create(
        self, archive: BatchArchive, http: BatchHttp, batch: StoredBatch, calls: Sequence[ApiCall]
    ) -> tuple[str, bool]:
        """Return the id of a batch at the server, and whether it is a guess.

        The id is "" if it is not known whether the server has received the batch.
        """
        # Another machine, or a process whose archive was lost, may have submitted the same requests.
        if name := self.api.recover_id(http, batch):
            return name, False
        try:
            return self.api.create(http, batch.label, [(call.key, call.body) for call in calls]), False
        except (Unclear, Unexpected):
            pass  # the server may have received the batch, which its list tells, now or when the command is repeated
        try:
            return self.api.find(http, batch, archive.names()), not self.api.labelled
        except (Absent, Unexpected, ModelError):
            return "", False

    def _submission_error(self, failure: Exception) -> ModelError:
        if isinstance(failure, ModelError):
            return failure
        if isinstance(failure, Unexpected):
            return ModelError(
                f"{self.client.endpoint.host}: an unexpected response ({failure}); run the same command again to "
                "continue"
            )
        return ModelError(
            f"{self.client.endpoint.url} has no batch API ({failure} is not found); leave out --batch, or correct "
            "base_url"
        )

    def _observe(self, archive: BatchArchive, http: BatchHttp, batch: StoredBatch) -> Pending | None:
        """Return a batch that is being processed, or None once its results are stored."""
        if not batch.name:
            try:
                name = self.api.find(http, batch, archive.names())
            except (Absent, Unexpected) as failure:
                raise self._submission_error(failure) from None
            if not name:
                archive.never_created(batch.label)
                return None
            archive.created(batch.label, name, guessed=not self.api.labelled)
            batch = replace(batch, name=name)
        try:
            state = self.api.state(http, batch.name)
        except Absent:
            self._handle_lost_results(archive, batch, "is not known to the server (404)")
            return None
        if not state.ended:
            return Pending(batch, state)
        if state.problem:
            keys = archive.unanswered(batch.label)
            archive.collected(self.settings.account, batch.label, (), keys)  # the next one gets another label
            raise ModelError(
                f"{self.client.endpoint.host} did not process the batch {self._name(batch)} of {len(keys)} requests "
                f"({state.problem}); nothing was spent; mend this, and run the same command again"
            )
        if self._collect(archive, http, batch, state):
            if state.cancelled or state.expired:  # the server says that it did not process the rest
                self._record_unprocessed(archive, batch, cancelled=state.cancelled)
            else:
                self._handle_lost_results(archive, batch, "has ended without a result for them")
        return None

    def _collect(self, archive: BatchArchive, http: BatchHttp, batch: StoredBatch, state: BatchState) -> bool:
        """Store the results of a batch; return False if they turn out to be somebody else's."""
        reservations = archive.unanswered(batch.label)
        answers: list[PaidAnswer] = []
        failures: dict[str, str] = {}
        forbidden_errors: dict[str, ForbiddenError] = {}
        unknown, total = 0, 0
        try:
            for result in self.api.results(http, batch.name, state):
                total += 1
                if result.key not in reservations:
                    unknown += 1
                    continue
                try:
                    self._read_result(result, reservations[result.key], answers, failures)
                except ForbiddenError as failure:
                    forbidden_errors[result.key] = failure
                if len(answers) + len(failures) >= RESULTS_PER_COMMIT:
                    self._store_results(archive, batch, answers, failures, cancelled=state.cancelled)
                    answers, failures = [], {}
            self._read_forbidden(forbidden_errors, answers, failures)
        finally:  # if the connection breaks, what was read is complete
            self._store_results(archive, batch, answers, failures, cancelled=state.cancelled)
        foreign = total and unknown == total and len(archive.unanswered(batch.label)) == batch.requests
        if foreign and archive.is_guessed(batch.label):
            archive.not_ours(batch.label, batch.name)
            return False
        return True

    def _read_result(
        self, result: BatchResult, guess: Usage, answers: list[PaidAnswer], failures: dict[str, str]
    ) -> None:
        """Add the answer in a result, or why there is none; a permanent failure is not submitted again now.

        Raises:
            ForbiddenError: a 403, whose meaning depends on the other results.
        """
        if result.missing:
            failures[result.key] = result.missing
            return
        try:
            answer = self.client.judge(result.status, {}, result.body)
        except RetryableError as failure:
            failures[result.key] = str(failure)
        except ForbiddenError:
            raise
        except (PermanentError, ModelError) as failure:
            failures[result.key] = self.failed[result.key] = str(failure)
        else:
            self.session.note(answer)
            tokens_out = self.budget.max_written_tokens(answer.reply, guess.tokens_out)
            usage = answer.usage or Usage(guess.tokens_in, tokens_out)
            answers.append(PaidAnswer(usage, result.key, pack(answer.reply)))

    def _read_forbidden(
        self, errors: Mapping[str, ForbiddenError], answers: list[PaidAnswer], failures: dict[str, str]
    ) -> None:
        """Add each 403: a refusal of its request if another one succeeded, else a permanent failure."""
        has_succeeded = bool(self.session.answered or self.session.from_memo or self.budget.spent.total)
        for key, failure in errors.items():
            if has_succeeded:
                refusal = Reply(text="", finish="refusal", error=failure.server_message)
                answers.append(PaidAnswer(Usage(), key, pack(refusal)))
            else:
                failures[key] = self.failed[key] = str(failure)

    def _store_results(
        self,
        archive: BatchArchive,
        batch: StoredBatch,
        answers: Sequence[PaidAnswer],
        failures: Mapping[str, str],
        *,
        cancelled: bool,
    ) -> None:
        """Store answers and failures; a request that failed too often, or was cancelled, has failed in this session."""
        archive.collected(self.settings.account, batch.label, answers, failures)
        times = archive.attempts(self.settings.account, failures)
        for key, reason in failures.items():
            if cancelled or times.get(key, 0) % MAX_ATTEMPTS == 0:
                self.failed.setdefault(key, reason)
                self.session.note_failure(reason)

    def _record_unprocessed(self, archive: BatchArchive, batch: StoredBatch, *, cancelled: bool) -> None:
        """Note that a batch has ended before it came to the rest of its requests."""
        reason = f"the batch {self._name(batch)} {'was cancelled' if cancelled else 'expired'}"
        failures = dict.fromkeys(archive.unanswered(batch.label), reason)
        self._store_results(archive, batch, (), failures, cancelled=cancelled)

    def _handle_lost_results(self, archive: BatchArchive, batch: StoredBatch, problem: str) -> None:
        """Say that the server has no results for the rest of a batch, or charge them and let them be submitted again.

        They may have been processed and billed. Unless --resubmit_lost is given, they stay reserved, and the next
        command looks for their results again.
        """
        reservations = archive.unanswered(batch.label)
        if not reservations:
            return
        message = f"the batch {self._name(batch)} {problem}"
        token_count = sum(reservations.values(), Usage()).total
        consequence = (
            f"{pluralize(len(reservations), 'request')} may have been billed, and {token_count:,} tokens count against "
            "the budget"
        )
        if self.settings.resubmit_lost:
            entries = [PaidAnswer(usage, key) for key, usage in reservations.items()]
            archive.collected(self.settings.account, batch.label, entries)
            warn(f"{self.client.endpoint.host}: {message}; {consequence}; submitted again")
            return
        if not reservations.keys() <= self.failed.keys():
            warn(f"{self.client.endpoint.host}: {message}; {consequence}")
        self.failed |= dict.fromkeys(
            reservations, f"{message}, which may have been billed; --resubmit_lost submits it again"
        )

    def _name(self, batch: StoredBatch) -> str:
        """Return the id of a batch for messages, without the key, in case the server made it of that."""
        return self.client.endpoint.scrub(batch.name)

    def _format_progress(self, pending: Sequence[Pending]) -> str:
        parts = []
        for pending_batch in pending:
            if pending_batch.state is None:
                parts.append(
                    f"it is not known yet whether a batch of {pending_batch.batch.requests:,} requests was submitted"
                )
            else:
                done_count = min(pending_batch.state.done, pending_batch.batch.requests)
                name = self._name(pending_batch.batch)
                parts.append(f"{done_count:,} of {pending_batch.batch.requests:,} requests of {name} are done")
        # Without the flags that put the run that waits away, or may pay for another batch.
        words = [word for word in command() or () if word not in ("--fresh", "--resubmit_lost")]
        advice = f"run the same command again: figeval {shlex.join(words)}" if words else "make the same call again"
        return f"{self.client.endpoint.host}: {'; '.join(parts)}; to collect the answers, {advice}"
