"""The backend of models behind an API, which asks only questions whose replies are not stored yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from figeval.models.archive import Archive, Usage, open_archive
from figeval.models.progress import advance
from figeval.types import JSON, Prompt, Reply

from ..encoders.settings import Configured
from .budget import Budget, expected
from .cache import archive_file, cut, key_of, unpacked
from .client import Client, run_async
from .dialects import Anthropic, Dialect, OpenAI, OpenAISettings
from .request_batch import ApiSession, Call, RequestBatch
from .settings import ApiSettings, endpoint

DEEP = 4  # requests per call for each concurrent one, so that few workers wait for the slowest of a call


class ApiModel:
    """A chat model. Replies are in the order of the requests, whatever the order of the answers."""

    def __init__(self, dialect: Dialect, client: Client, settings: ApiSettings) -> None:
        self.dialect = dialect
        self.client = client
        self.settings = settings
        self.budget = Budget(settings)
        self.session = ApiSession(width=settings.max_concurrent, narrowest=settings.max_concurrent)
        self.min_batch_size = DEEP * settings.max_concurrent

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        """Return one reply per conversation.

        Raises:
            ModelError: no request would be answered: no server, a wrong key, no such model.
            BudgetExhausted: the next request would cost more than is left.
            RecordError: the archive of replies cannot be written.
        """
        calls = [self._call(request) for request in requests]
        with open_archive(archive_file()) as archive:
            replies = self._remembered(archive, calls)
            self.budget.spent = archive.spent(self.settings.account)
            fresh = {call.key: call for call in calls if call.key not in replies}
            different = len({call.key for call in calls})
            advance(1 - len(fresh) / different)
            if fresh:
                work = RequestBatch(self.client, self.session, self.budget, archive, per_reply=1 / different)
                replies |= run_async(work.run(list(fresh.values())))
        return [cut(replies[call.key], request.stop) for call, request in zip(calls, requests, strict=True)]

    def _remembered(self, archive: Archive, calls: Sequence[Call]) -> dict[str, Reply]:
        if not self.settings.memo:
            return {}
        found = remembered(archive, {call.key for call in calls})
        self.session.from_memo += len(found)
        return found

    def _call(self, request: Prompt) -> Call:
        body = json.dumps(self.dialect.body(request), separators=(",", ":")).encode("ascii")
        return Call(
            key_of(self.client.url, self.client.served(), body, self.settings), body, expected(request, self.settings)
        )

    def estimate(self, requests: Iterable[Prompt]) -> str:
        """Return the estimated cost of answering the requests, as one line."""
        costs = {call.key: call.expected for call in map(self._call, requests)}
        with open_archive(archive_file()) as archive:
            known = remembered(archive, costs) if self.settings.memo else {}
            self.budget.spent = archive.spent(self.settings.account)
        total = sum((cost for key, cost in costs.items() if key not in known), Usage())
        cost = self.budget.cost(total)
        told = [
            f"{len(costs) - len(known):,} requests, about {total.tokens_in:,} input tokens and at most "
            f"{total.tokens_out:,} output tokens" + ("" if cost is None else f", a cost of at most {cost:,.4f}"),
            f"{len(known):,} answers are already cached" if known else "",
            f"spent so far: {self.budget.say(self.budget.spent)}" if self.budget.spent.total else "",
            "" if self.budget.allows(total) else "the budget may not be sufficient",
        ]
        return "; ".join(filter(None, told))

    def fingerprint(self) -> str:
        """Return the model, host and decoding options: everything that can change an answer and is known on this side.

        Raises:
            ModelError: the server on this machine, which is asked for its models, is down.
        """
        settings = self.settings
        options = {
            **settings.decoding,
            **settings.extra_body,
            "reasoning_effort": getattr(settings, "reasoning_effort", None),
            "reasoning_tokens": settings.reasoning_tokens,
            "seed": settings.seed if settings.sampled else None,
        }
        given = {name: value for name, value in options.items() if value not in (None, 0) or name == "temperature"}
        told = (
            settings.model,
            f"at {self.client.endpoint.host}",
            json.dumps(given, sort_keys=True),
            self.client.served(),
        )
        return " ".join(filter(None, told))

    def describe(self) -> JSON:
        """Return the address, options and statistics; tokens and cost are those of the run over all its sessions."""
        session, spent = self.session, self.budget.spent
        return {
            "base_url": self.client.endpoint.url,
            "answered_as": sorted(session.models),
            "requests": session.sent,
            "answered": session.answered,
            "from_memo": session.from_memo,
            "failed": session.failed,
            "faults": dict(sorted(session.faults.items())),
            "max_concurrent": self.settings.max_concurrent,
            "narrowest": session.narrowest,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "cost": self.budget.cost(spent),
        }


def remembered(archive: Archive, keys: Iterable[str]) -> dict[str, Reply]:
    """Return the stored replies by key, without damaged rows, which are replaced when their question is asked again."""
    read = ((key, unpacked(stored)) for key, stored in archive.known(keys).items())
    return {key: reply for key, reply in read if reply is not None}


def opened(dialect: Dialect, settings: ApiSettings) -> ApiModel:
    """Return the model without sending anything. Raises `ModelError` if there is no key."""
    client = Client(dialect, endpoint(settings, dialect.url, dialect.variable), settings)
    return ApiModel(dialect, client, settings)


def open_openai(settings: OpenAISettings) -> ApiModel:
    """Open a chat model of OpenAI, or of a server with its protocol.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return opened(OpenAI(settings), settings)


def open_anthropic(settings: ApiSettings) -> ApiModel:
    """Open a chat model of Anthropic.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return opened(Anthropic(settings), settings)


openai = Configured(OpenAISettings, open_openai)
anthropic = Configured(ApiSettings, open_anthropic)
