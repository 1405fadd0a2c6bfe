"""A model as a judge of the items of `figeval annotate export`: it sees what annotators see, and not who wrote a text.

There is one question for each item and criterion. Answers are only appended to a file (`judge_record`), so the same
command continues after a kill. A question that failed has no row and is asked again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from figeval import answers
from figeval.answers.extract import extract_label
from figeval.answers.numbers import extract_number
from figeval.config import UNSEEN
from figeval.errors import CapabilityError, DataError, FolderInUse, OptionError
from figeval.frontend import notice, warn
from figeval.io.json_files import read_model
from figeval.io.storage import cure, locked, replace_text
from figeval.io.text import clean, cleaned
from figeval.models.capabilities import ask
from figeval.models.model import Model, open_model
from figeval.prompts import PromptContext, PromptTemplate, load_template
from figeval.records import provenance
from figeval.runs.harness import Harness
from figeval.runs.plan import LONG, SHORT
from figeval.spec.criteria import Criterion
from figeval.task_types.label_words import word_shares
from figeval.types import JSON, Continuation, Example, Prompt, Reply, Status
from figeval.wings.annotation.judge_record import (
    CURE,
    PREFIX,
    Judged,
    JudgeRecord,
    JudgeRow,
    stored_rows,
)
from figeval.wings.annotation.kinship import kinship
from figeval.wings.annotation.questionnaire import Fields, Questionnaire, questionnaire
from figeval.wings.annotation.sheets import Key, read_key

NAME = re.compile(r"[\w.-]{1,80}")
TEMPLATE = "_default/judge.jinja"
BATCH = 16  # questions that are asked and stored together; what a kill may lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Arguments of a judgement: the items and the model.

    Attributes:
        folder: folder of the items.
        model: the judge, as for `--model`.
        options: its options, as for `--model_args`.
        name: name of its files; by default, that of the model.
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


def judge_items(wanted: Judging, harness: Harness) -> Judged:
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
    key = read_key(wanted.folder)
    if key.gold:
        raise OptionError(
            f"{wanted.folder} has questions with a right answer, which need no judge; use `figeval run --tasks "
            f"{key.task} --model {wanted.model}`"
        )
    name = wanted.name or re.sub(r"[^\w.-]+", "_", wanted.model).strip("_.")[:80]
    if not NAME.fullmatch(name):
        raise OptionError(f"--name: {name!r:.100} is no file name; use up to 80 letters, digits, _, - and .")
    sheet = questionnaire(wanted.folder, key)
    folder = None if wanted.template is None else wanted.template.parent
    template = load_template(TEMPLATE if wanted.template is None else wanted.template.name, folder)
    # Without what is empty, so that judges of items from before there were instructions can continue.
    told = [sheet.instructions] if sheet.instructions else []
    texts = _digest([sheet.items, [one.model_dump(exclude_defaults=True) for one in sheet.criteria], *told])
    account = _digest([wanted.model, _visible(wanted.options), template.sha256, texts])[:16]
    with closing(
        open_model(harness.backends, wanted.model, wanted.options, {**wanted.common, "account": account})
    ) as model:
        session = _Session(wanted, name, key, sheet, model, template, texts)
        busy = FolderInUse(f"another process writes {session.rows_file}; wait until it has ended")
        with cure(wanted.folder, "ITEMS"), locked(wanted.folder / f".{PREFIX}{name}.lock", busy):
            return session.judged()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _visible(options: Mapping[str, Any]) -> JSON:
    """Return the options that can change an answer, as a record holds them."""
    told = {name: value for name, value in options.items() if name not in UNSEEN}
    found: JSON = cleaned(json.loads(json.dumps(told, default=str)))
    return found


@dataclass(frozen=True, slots=True)
class _Session:
    """One call of `judge_items`."""

    wanted: Judging
    name: str
    key: Key
    sheet: Questionnaire
    model: Model
    template: PromptTemplate
    texts: str

    @property
    def rows_file(self) -> Path:
        return self.wanted.folder / f"{PREFIX}{self.name}.jsonl"

    @property
    def record_file(self) -> Path:
        return self.wanted.folder / f"{PREFIX}{self.name}.json"

    def judged(self) -> Judged:
        """Ask what has not been asked yet."""
        items = list(self.sheet.items)
        items = sorted(items, key=lambda item: (int(item), item) if item.isdecimal() else (0, item))
        items = items[: self.wanted.limit]
        questions = [(item, one) for item in items for one in self.sheet.criteria]
        record = self._record(len(items), len(questions))
        rows = {(row.item, row.criterion): row for row in stored_rows(self.rows_file)}
        missing = [(item, one) for item, one in questions if (item, one.name) not in rows]
        if rows:
            notice(f"{self.rows_file}: {len(questions) - len(missing)} of {len(questions)} questions are answered")
        for kin in record.kin():
            warn(f"judge {self.model.name}: {kin}, so also use a judge of another family")
        record = self._stored(record, rows.values())
        self._announce(missing)
        try:
            size = max(BATCH, getattr(self.model.backend, "min_batch_size", 1))
            for begin in range(0, len(missing), size):
                answered = self._answers(missing[begin : begin + size], record.method)
                found = [row for row in answered if row.status != "error"]
                self._append(found)
                rows |= {(row.item, row.criterion): row for row in found}
        finally:
            if missing:
                # Without a question, an API model does not know what it has cost.
                record = record.model_copy(update={"description": cleaned(self.model.description())})
            record = self._stored(record, rows.values())
        failed = sum((item, one.name) not in rows for item, one in missing)
        return Judged(self.name, record, tuple(rows.values()), failed, frozenset(items))

    # ---- the record --------------------------------------------------------------------------------------------------

    def _record(self, items: int, questions: int) -> JudgeRecord:
        """Return the record of an earlier session that this one continues, or a new one."""
        offers = self.model.offers
        if not {"loglikelihood", "generate"} & offers:
            able = ", ".join(sorted(offers)) or "nothing"
            raise CapabilityError(
                f"{self.model.name} cannot judge: it needs loglikelihood or generate, and offers {able}; "
                "use a language model"
            )
        now = provenance.now()
        new = JudgeRecord(
            model=self.model.name,
            options=_visible(self.wanted.options),
            fingerprint=self.model.fingerprint(),
            template=str(self.wanted.template.name if self.wanted.template else TEMPLATE),
            template_sha256=self.template.sha256,
            texts_sha256=self.texts,
            method="loglikelihood" if "loglikelihood" in offers else "generate",
            readers=answers.VERSION,
            seed=self.wanted.common.get("seed") or 0,
            figeval=provenance.installed("figeval"),
            started=now,
            updated=now,
            items=items,
            questions=questions,
            kinship=kinship(self.model, self.key.authors, self.key.models),
        )
        if not self.record_file.exists():
            if self.rows_file.exists():
                raise OptionError(f"{self.rows_file} has no record beside it; remove it, or give another --name")
            return new
        old = read_model(self.record_file, JudgeRecord, DataError, cure=CURE)
        fixed = ("fingerprint", "options", "method", "readers", "seed", "template_sha256", "texts_sha256")
        if changed := [name for name in fixed if getattr(old, name) != getattr(new, name)]:
            raise OptionError(
                f"{self.record_file} is from another judge or other texts ({', '.join(changed)} changed); give another "
                "--name, or remove both files of that judge"
            )
        return old.model_copy(update={"items": max(items, old.items), "questions": max(questions, old.questions)})

    def _stored(self, record: JudgeRecord, rows: Any) -> JudgeRecord:
        """Count the answers, and replace the record on disk."""
        rows = list(rows)
        checks = [row for row in rows if row.item in self.key.checks]
        passed = sum(row.label == self.key.checks[row.item].get(row.criterion) for row in checks)
        record = record.model_copy(
            update={
                "updated": provenance.now(),
                "statuses": dict(sorted(Counter(row.status for row in rows).items())),
                "truncated": sum(row.truncated for row in rows),
                "checks": (passed, len(checks)),
            }
        )
        replace_text(self.record_file, json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")
        return record

    def _append(self, rows: Sequence[JudgeRow]) -> None:
        """Append rows in place of an incomplete last line, and wait until they are on disk."""
        lines = "".join(json.dumps(row.model_dump(mode="json")) + "\n" for row in rows)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self.rows_file, flags, 0o666), "r+b") as stream:
            stream.seek(stream.read().rfind(b"\n") + 1)
            stream.truncate()
            stream.write(lines.encode())
            stream.flush()
            os.fsync(stream.fileno())

    # ---- asking ------------------------------------------------------------------------------------------------------

    def _context(self, criterion: Criterion) -> PromptContext:
        is_chat = self.model.is_chat_model
        return PromptContext(
            block=lambda block, asked, **_: self.template.render(
                block, _variables(self.sheet.items[asked.id], criterion, self.sheet.instructions)
            ),
            labels=criterion.labels,
            chat=self.model.chat,
            stop=() if is_chat else ("\n",),
            max_new_tokens=LONG if is_chat else SHORT,
        )

    def _announce(self, missing: Sequence[tuple[str, Criterion]]) -> None:
        """Print the cost of the missing answers, if the model can estimate it."""
        estimate = getattr(self.model.backend, "estimate", None)
        if estimate is not None and missing:
            notice(f"{self.model.name}: {estimate(map(self._prompt, missing))}")

    def _prompt(self, question: tuple[str, Criterion]) -> Prompt:
        return self._context(question[1]).prompt("word", Example(id=question[0]))

    def _answers(self, questions: Sequence[tuple[str, Criterion]], method: str) -> list[JudgeRow]:
        if method == "generate":
            outputs = ask(self.model.backend, [self._prompt(question) for question in questions])
            return [
                _read(
                    item,
                    criterion,
                    value if isinstance(value, Reply) else Reply(text=value),
                    place in outputs.truncated,
                )
                for place, ((item, criterion), value) in enumerate(zip(questions, outputs.values, strict=True))
            ]
        requests = [self._continuations(*question) for question in questions]
        outputs = ask(self.model.backend, list(chain.from_iterable(requests)))
        found, place = [], 0
        for (item, criterion), own in zip(questions, requests, strict=True):
            places = range(place, place := place + len(own))
            logprobs = [float(outputs.values[one]) for one in places]
            shares = {label: share for label, (share,) in word_shares(self._context(criterion), logprobs).items()}
            found.append(_most_probable(item, criterion, shares, any(one in outputs.truncated for one in places)))
        return found

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
    fence = f"=== {_digest(parts)[:16]} ==="
    told = {"instructions": instructions, "description": criterion.description}
    return {"criterion": criterion.name, "labels": criterion.labels, "parts": parts, "fence": fence, **told}


def _read(item: str, criterion: Criterion, reply: Reply, truncated: bool) -> JudgeRow:
    """Return the label that a reply commits to."""
    reply = replace(reply, text=clean(reply.text))
    status: Status
    label: str | None
    if all(one.isdecimal() for one in criterion.labels):
        status, number = extract_number(reply, [float(one) for one in criterion.labels])
        label = next((one for one in criterion.labels if number is not None and float(one) == number), None)
    else:
        found = extract_label(reply, [(one,) for one in criterion.labels])
        status, label = found.status, None if found.index is None else criterion.labels[found.index]
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
    known = not any(map(math.isnan, shares.values()))
    best = [label for label, share in shares.items() if known and share == max(shares.values())]
    return JudgeRow(
        item=item,
        criterion=criterion.name,
        label=best[0] if len(best) == 1 else None,
        status="ok" if len(best) == 1 else "ambiguous" if known else "nan",
        probabilities={label: share if known else None for label, share in shares.items()},
        truncated=truncated,
    )
