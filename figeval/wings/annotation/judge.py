"""A model as a judge of the items of `figeval annotate export`: it sees what annotators see, and not who wrote a text.

There is one question for each item and criterion: labels are compared by probability, or a reply is read. `judge_store`
keeps the answers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from figeval import (
    CapabilityError,
    Continuation,
    Example,
    Harness,
    OptionError,
    Prompt,
    PromptContext,
    Reply,
    Status,
    extract_label,
    extract_number,
)
from figeval.answers import VERSION
from figeval.config import UNSEEN
from figeval.io.text import clean, cleaned
from figeval.models.capabilities import ask
from figeval.models.model import Model, open_model
from figeval.prompts import PromptTemplate, load_template
from figeval.records import provenance
from figeval.spec.criteria import Criterion
from figeval.task_types.label_words import word_shares
from figeval.types import JSON
from figeval.wings.annotation.items import Fields, Questionnaire, read_key, read_questionnaire
from figeval.wings.annotation.judge_store import JudgeAnswers, JudgeRecord, JudgeRow, JudgeStore, Question
from figeval.wings.annotation.kinship import kinship

NAME = re.compile(r"[\w.-]{1,80}")
TEMPLATE = "_default/judge.jinja"
MAX_LABEL_TOKENS, MAX_CHAT_TOKENS = 16, 512  # of a reply: a chat model writes other text before the label
MIN_BATCH_QUESTIONS = 16  # that are asked and stored together; what a kill may lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Arguments of `figeval.judge_items`, which describes them.

    Attributes:
        template: template file with the blocks `context` and `word`; by default, the built-in one.
        limit: number of items to judge, which are a random part because items are numbered at random.
        common: device, seed and budgets, for models that take them.
    """

    folder: Path
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    template: Path | None = None
    limit: int | None = None
    common: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name of the judge's files. Raises `OptionError` if it cannot be one."""
        name = self.name or re.sub(r"[^\w.-]+", "_", self.model).strip("_.")[:80]
        if not NAME.fullmatch(name):
            raise OptionError(f"--name: {name!r:.100} is no file name; use up to 80 letters, digits, _, - and .")
        return name

    @property
    def answer_options(self) -> JSON:
        """The options that can change an answer, as a record holds them."""
        options = {name: value for name, value in self.options.items() if name not in UNSEEN}
        plain: JSON = cleaned(json.loads(json.dumps(options, default=str)))
        return plain

    def load_template(self) -> PromptTemplate:
        return (
            load_template(TEMPLATE)
            if self.template is None
            else load_template(self.template.name, self.template.parent)
        )


def ask_judge(judging: Judging, harness: Harness) -> JudgeAnswers:
    """Ask a model about all items that it has not judged yet, and store its answers next to the key.

    Raises:
        OptionError: the items are questions with an answer, the name cannot be part of a file name, or files with this
            name come from another model, prompt or version of the texts.
        DataError: there are no items.
        CapabilityError: the model can neither compare labels nor reply in words.
        FolderInUse: another process is judging with this name.
        BudgetExhausted: the next question would exceed a budget; earlier answers are kept.
        RecordError: the folder cannot be written.
    """
    key = read_key(judging.folder)
    if key.gold:
        raise OptionError(
            f"{judging.folder} has questions with a right answer, which need no judge; use `figeval run --tasks "
            f"{key.task} --model {judging.model}`"
        )
    store = JudgeStore(judging.folder, judging.file_name, key)
    sheet = read_questionnaire(judging.folder, key)
    template = judging.load_template()
    texts = _digest_of_texts(sheet)
    account = _digest([judging.model, judging.answer_options, template.sha256, texts])[:16]
    common = {**judging.common, "account": account}
    with closing(open_model(harness.backends, judging.model, judging.options, common)) as model, store.lock():
        items = sheet.numbers[: judging.limit]
        questions = [(item, criterion) for item in items for criterion in sheet.criteria]
        judge = _Judge(model, sheet, template, _method_of(model))
        time = provenance.now()
        record = JudgeRecord(
            model=model.name,
            options=judging.answer_options,
            fingerprint=model.fingerprint(),
            template=str(judging.template.name if judging.template else TEMPLATE),
            template_sha256=template.sha256,
            texts_sha256=texts,
            method=judge.method,
            readers=VERSION,
            seed=judging.common.get("seed") or 0,
            figeval=provenance.installed("figeval"),
            started=time,
            updated=time,
            items=len(items),
            questions=len(questions),
            kinship=kinship(model, key.authors, key.models),
        )
        return store.collect(record, questions, judge)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _digest_of_texts(sheet: Questionnaire) -> str:
    # Without what is empty, so that judges of items from before there were instructions can continue.
    criteria = [criterion.model_dump(exclude_defaults=True) for criterion in sheet.criteria]
    return _digest([sheet.items, criteria, *([sheet.instructions] if sheet.instructions else [])])


def _method_of(model: Model) -> Literal["loglikelihood", "generate"]:
    if "loglikelihood" in model.offers:
        return "loglikelihood"
    if "generate" in model.offers:
        return "generate"
    offers = ", ".join(sorted(model.offers)) or "nothing"
    raise CapabilityError(
        f"{model.name} cannot judge: it needs loglikelihood or generate, and offers {offers}; use a language model"
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """A model that answers the questions of a questionnaire, as `JudgeStore` asks them."""

    model: Model
    sheet: Questionnaire
    template: PromptTemplate
    method: Literal["loglikelihood", "generate"]

    @property
    def batch_size(self) -> int:
        return max(MIN_BATCH_QUESTIONS, getattr(self.model.backend, "min_batch_size", 1))

    def description(self) -> dict[str, Any]:
        return cleaned(self.model.description())

    def estimate(self, questions: Sequence[Question]) -> str:
        estimate = getattr(self.model.backend, "estimate", None)
        return "" if estimate is None else str(estimate(self._prompt(*question) for question in questions))

    def answer(self, questions: Sequence[Question]) -> list[JudgeRow]:
        return self._compare_labels(questions) if self.method == "loglikelihood" else self._read_replies(questions)

    def _read_replies(self, questions: Sequence[Question]) -> list[JudgeRow]:
        outputs = ask(self.model.backend, [self._prompt(*question) for question in questions])
        replies = [reply if isinstance(reply, Reply) else Reply(text=reply) for reply in outputs.values]
        return [
            _read_label(item, criterion, reply, index in outputs.truncated)
            for index, ((item, criterion), reply) in enumerate(zip(questions, replies, strict=True))
        ]

    def _compare_labels(self, questions: Sequence[Question]) -> list[JudgeRow]:
        requests = [self._continuations(*question) for question in questions]
        outputs = ask(self.model.backend, list(chain.from_iterable(requests)))
        rows, start = [], 0
        for (item, criterion), continuations in zip(questions, requests, strict=True):
            indices = range(start, start := start + len(continuations))
            logprobs = [float(outputs.values[index]) for index in indices]
            shares = {label: share for label, (share,) in word_shares(self._context(criterion), logprobs).items()}
            is_truncated = any(index in outputs.truncated for index in indices)
            rows.append(_most_probable(item, criterion, shares, is_truncated))
        return rows

    def _context(self, criterion: Criterion) -> PromptContext:
        is_chat = self.model.is_chat_model
        return PromptContext(
            block=lambda block, example, **_: self.template.render(
                block, _variables(self.sheet.items[example.id], criterion, self.sheet.instructions)
            ),
            labels=criterion.labels,
            chat=self.model.chat,
            stop=() if is_chat else ("\n",),
            max_new_tokens=MAX_CHAT_TOKENS if is_chat else MAX_LABEL_TOKENS,
        )

    def _prompt(self, item: str, criterion: Criterion) -> Prompt:
        return self._context(criterion).prompt("word", Example(id=item))

    def _continuations(self, item: str, criterion: Criterion) -> list[Continuation]:
        """Return one request per label; a line feed ends the labels if one begins with another, as 10 with 1."""
        context = self._context(criterion)
        question = context.question("context", Example(id=item))
        labels = criterion.labels
        is_prefix = any(a != b and b.startswith(a) for a in labels for b in labels)
        end = "\n" if is_prefix else ""
        return [Continuation(question, context.answer_start(f" {label}") + end) for label in labels]


def _variables(parts: Fields, criterion: Criterion, instructions: str) -> JSON:
    """Return the variables of the template; the fence is a line that the texts cannot contain, being their digest."""
    return {
        "criterion": criterion.name,
        "labels": criterion.labels,
        "parts": parts,
        "fence": f"=== {_digest(parts)[:16]} ===",
        "instructions": instructions,
        "description": criterion.description,
    }


def _read_label(item: str, criterion: Criterion, reply: Reply, truncated: bool) -> JudgeRow:
    reply = replace(reply, text=clean(reply.text))
    status: Status
    label: str | None
    if all(label.isdecimal() for label in criterion.labels):
        status, number = extract_number(reply, [float(label) for label in criterion.labels])
        label = next((label for label in criterion.labels if number is not None and float(label) == number), None)
    else:
        extracted = extract_label(reply, [(label,) for label in criterion.labels])
        status, label = extracted.status, None if extracted.index is None else criterion.labels[extracted.index]
    return JudgeRow(
        item=item,
        criterion=criterion.name,
        label=label if status == "ok" else None,
        status=status,
        raw=reply.text,
        truncated=truncated,
    )


def _most_probable(item: str, criterion: Criterion, shares: Mapping[str, float], truncated: bool) -> JudgeRow:
    """Return the most probable label; there is none if several are, or if a probability is not a number."""
    is_valid = not any(map(math.isnan, shares.values()))
    best = [label for label, share in shares.items() if is_valid and share == max(shares.values())]
    return JudgeRow(
        item=item,
        criterion=criterion.name,
        label=best[0] if len(best) == 1 else None,
        status="ok" if len(best) == 1 else "ambiguous" if is_valid else "nan",
        probabilities={label: share if is_valid else None for label, share in shares.items()},
        truncated=truncated,
    )
