"""The backend of models behind an API, which asks only questions whose replies are not stored yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from figeval.errors import ModelError
from figeval.io.json_files import parse_json
from figeval.io.observer import report_share
from figeval.io.text import pluralize
from figeval.reasoning import Reasoning
from figeval.types import JSON, Prompt, Reply

from .archive import Archive, Usage, archive_file, key_of, open_archive, unpack
from .batch_archive import BatchArchive
from .budget import ApiCall, Budget, estimate_usage, size_of
from .client import Client, run_async
from .dialects import ChatDialect
from .formats import keeps_to, unwrap_choice
from .request_batch import ApiSession, RequestBatch
from .thinking import has_thoughts, is_cut_off, separate_thoughts

REJECTED = "400 "  # begins the error of a request that the server will never answer
REQUESTS_PER_WORKER = 4  # requests per call for each concurrent one, so that few workers wait for the slowest of a call


class ApiModel:
    """A chat model. Replies are in the order of the requests, whatever the order of the answers.

    With --reasoning, an answer that was cut off while the model still thought is asked for once more, with twice the
    room, before it counts as truncated.
    """

    constrains_answers = True

    def __init__(self, client: Client[ChatDialect]) -> None:
        self.client, self.dialect, self.settings = client, client.dialect, client.settings
        settings = client.settings
        self.budget = Budget(settings)
        self.session = ApiSession(width=settings.max_concurrent, narrowest=settings.max_concurrent)
        self.min_batch_size = REQUESTS_PER_WORKER * settings.max_concurrent

    @property
    def do_sample(self) -> bool:
        """True if the same question may get different answers."""
        return self.settings.may_vary

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        """Return one reply per conversation.

        Raises:
            ModelError: no request would be answered: no server, a wrong key, no such model.
            BudgetExhausted: the next request would cost more than is left.
            RecordError: the archive of replies cannot be written.
        """
        thinking = self.settings.thinking
        replies = [
            self.clean_reply(reply, request, thinking) for reply, request in self._answer_requests(requests, thinking)
        ]
        short = [
            index for index, reply in enumerate(replies) if thinking is not None and thinking.on and is_cut_off(reply)
        ]
        if thinking is not None and short:
            extended = thinking.extended
            self.session.extended += len(short)
            retries = self._answer_requests([requests[index] for index in short], extended)
            for index, (reply, request) in zip(short, retries, strict=True):
                if not reply.error.startswith(REJECTED):  # the longer limit itself, which leaves the answer truncated
                    replies[index] = self.clean_reply(reply, request, extended)
        self.note(replies, requests)
        return replies

    def _answer_requests(self, requests: Sequence[Prompt], thinking: Reasoning | None) -> list[tuple[Reply, Prompt]]:
        """Return the reply to each request, from the archive or the server, with the request."""
        calls = [self.call(request, thinking) for request in requests]
        replies = self.answer_calls(self.client, calls)
        return [(replies[call.key], request) for call, request in zip(calls, requests, strict=True)]

    def answer_calls(self, client: Client[Any], calls: Sequence[ApiCall]) -> dict[str, Reply]:
        """Return the reply to each call by key, from the archive or from the server by this client of it.

        Raises:
            ModelError, BudgetExhausted, RecordError: see `generate`.
        """
        with self.archive() as archive:
            replies = self._load_replies(archive, calls)
            new_calls = {call.key: call for call in calls if call.key not in replies}
            if new_calls.keys() & archive.waiting(self.settings.account).keys():
                raise ModelError(
                    "a batch of this run is still being processed, and its requests would be paid for twice; run the "
                    "same command with --batch to collect the answers"
                )
            call_count = len({call.key for call in calls})
            report_share(1 - len(new_calls) / call_count if call_count else 0)
            if new_calls:
                work = RequestBatch(client, self.session, self.budget, archive, per_reply=1 / call_count)
                replies |= run_async(work.run(list(new_calls.values())))
        return replies

    def clean_reply(self, reply: Reply, request: Prompt, thinking: Reasoning | None) -> Reply:
        """Return a reply as routes read it: without thoughts, envelope, and what follows a stop text."""
        answer = cut_at_stops(separate_thoughts(reply, thinking), request.stop)
        return answer if request.answer is None else replace(answer, text=unwrap_choice(answer.text, request.answer))

    def note(self, replies: Sequence[Reply], requests: Sequence[Prompt]) -> None:
        """Count what the server did with flags that it may not know."""
        for reply, request in zip(replies, requests, strict=True):
            if reply.finish == "stop":
                self.session.complete += 1
                self.session.thought += has_thoughts(reply)
                self.session.unheld += request.answer is not None and not keeps_to(reply.text, request.answer)

    @contextmanager
    def archive(self) -> Iterator[BatchArchive]:
        """Open the archive of replies, and read what this run has spent and reserved. Raises `RecordError`."""
        with open_archive(archive_file(), BatchArchive) as archive:
            account = self.settings.account
            waiting = sum(archive.waiting(account).values(), Usage())
            self.budget.open(archive.spent(account), archive.batched(account), waiting)
            yield archive

    def _load_replies(self, archive: Archive, calls: Sequence[ApiCall]) -> dict[str, Reply]:
        if not self.settings.memo:
            return {}
        stored_replies = read_replies(archive, {call.key for call in calls})
        replies = {
            call.key: reply for call in calls if (reply := stored_replies.get(call.key)) and is_usable(call, reply)
        }
        self.session.from_memo += len(replies)
        return replies

    def call(self, request: Prompt, thinking: Reasoning | None = None) -> ApiCall:
        """Encode a request as it is sent, with its key and likely usage."""
        body = json.dumps(self.dialect.body(request, thinking), separators=(",", ":")).encode("ascii")
        key = key_of(self.client.url, self.client.served_models(), body, self.settings, request.sample)
        guess = estimate_usage(request, self.settings.room(request, thinking))
        return ApiCall(key, body, guess, size_of(request), len(request.messages))

    def estimate(self, requests: Iterable[Prompt]) -> str:
        """Return the estimated cost of answering the requests, as one line."""
        calls = (self.call(request, self.settings.thinking) for request in requests)
        costs = {call.key: call.expected for call in calls}
        with self.archive() as archive:
            cached_replies = read_replies(archive, costs) if self.settings.memo else {}
            submitted_keys = (costs.keys() & archive.waiting(self.settings.account)) - cached_replies.keys()
        new_keys = costs.keys() - cached_replies.keys() - submitted_keys
        total = sum((costs[key] for key in new_keys), Usage())
        cost = self.budget.cost(total, total if self.settings.batch else None)
        request_text = (
            f"{pluralize(len(new_keys), 'request')}, about {total.tokens_in:,} input tokens and at most "
            f"{total.tokens_out:,} output tokens" + ("" if cost is None else f", a cost of at most {cost:,.4f}")
        )
        clauses = [
            request_text if new_keys else "no new requests",
            f"{pluralize(len(cached_replies), 'answer')} already cached" if cached_replies else "",
            f"{pluralize(len(submitted_keys), 'request')} already in a batch" if submitted_keys else "",
            f"spent so far: {self.budget.summary}" if self.budget.spent.total else "",
            "" if self.budget.allows(total) else "the budget may not be sufficient",
        ]
        return "; ".join(filter(None, clauses))

    def fingerprint(self) -> str:
        """Return the model, host and decoding options: everything that can change an answer and is known on this side.

        Raises:
            ModelError: the server on this machine, which is asked for its models, is down.
        """
        settings = self.settings
        options = {
            **settings.decoding,
            "reasoning_effort": getattr(settings, "reasoning_effort", None),
            "reasoning_tokens": settings.reasoning_tokens,
            "reasoning": None if settings.reasoning is None else str(settings.reasoning),
            "reasoning_style": settings.reasoning_style or None,
            "seed": settings.seed if settings.sampled else None,
        }
        values = {name: value for name, value in options.items() if value not in (None, 0) or name == "temperature"}
        values |= settings.extra_body  # as in the body of a request; a 0, False or null of it is an option, too
        parts = (
            settings.model,
            f"at {self.client.endpoint.host}",
            json.dumps(values, sort_keys=True),
            self.client.served_models(),
        )
        return " ".join(filter(None, parts))

    def describe(self) -> JSON:
        """Return the address, options and statistics; tokens and cost are those of the run over all its sessions."""
        session, usage = self.session, self.budget.spent
        return {
            "base_url": self.client.endpoint.url,
            "answered_as": sorted(session.models),
            "requests": session.sent,
            "answered": session.answered,
            "from_memo": session.from_memo,
            "failed": session.failed,
            **({"asked_again_with_more_room": session.extended} if session.extended else {}),
            "faults": dict(sorted(session.faults.items())),
            "max_concurrent": self.settings.max_concurrent,
            "narrowest": session.narrowest,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "cost": self.budget.cost(usage, self.budget.batched),
            **({"prices": self._prices()} if self.client.price_source else {}),
            **({"warnings": warnings} if (warnings := [*self._warnings()]) else {}),
        }

    def _prices(self) -> JSON:
        settings = self.settings
        return {"input": settings.input_price, "output": settings.output_price, "source": self.client.price_source}

    def _warnings(self) -> Iterator[str]:
        """Yield sentences about the count of tokens, and about flags that the server seems not to know."""
        session, reasoning = self.session, self.settings.reasoning
        if self.budget.excess:
            yield self.budget.excess
        if self.budget.gaps:
            yield self.budget.gaps
        if session.unheld:
            yield (
                f"{session.unheld} of {session.complete} answers do not keep to the format of --constrain; the server "
                "may not know this way to ask for it; see structured= of --model_args"
            )
        if reasoning is not None and reasoning.on and session.complete and not session.thought:
            yield (
                f"--reasoning {reasoning}: none of {session.complete} answers shows a sign of reasoning; the model may "
                "not be able to, or its server may not know this way to ask; see reasoning_style= of --model_args"
            )
        if reasoning is not None and not reasoning.on and session.thought:
            times = f"{session.thought} of {session.complete} answers"
            yield f"--reasoning off: the model reasoned all the same before {times}"

    @property
    def context_length(self) -> int | None:
        """Number of tokens that the model reads and writes together, if a server on this machine lists it."""
        models = parse_json(self.client.served_models() or "[]")
        lengths = [model.get("max_model_len") for model in models] if isinstance(models, list) else []
        return min((length for length in lengths if type(length) is int and length > 0), default=None)


def is_usable(call: ApiCall, reply: Reply) -> bool:
    """Return whether a stored reply may still be used; an earlier version may have stored others."""
    try:
        return call.may_keep(reply)
    except ModelError:
        return False


def read_replies(archive: Archive, keys: Iterable[str]) -> dict[str, Reply]:
    """Return the stored replies by key, without damaged rows, which are replaced when their question is asked again."""
    replies = ((key, unpack(row)) for key, row in archive.known(keys).items())
    return {key: reply for key, reply in replies if reply is not None}


def cut_at_stops(reply: Reply, stops: Sequence[str]) -> Reply:
    """Return the reply up to the first stop text, since servers accept only a few stop texts or none."""
    positions = [position for stop in stops if stop and (position := reply.text.find(stop)) >= 0]
    return replace(reply, text=reply.text[: min(positions)], finish="stop") if positions else reply
