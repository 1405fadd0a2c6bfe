"""A model as a judge of the items of `figeval annotate export`: it sees what annotators see, and not who wrote a text.

Every item and criterion is an example, which the model is asked about along a route: labels are compared by
probability, or a reply is read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from figeval import (
    JSON,
    CapabilityError,
    Dialogue,
    Harness,
    Inquiry,
    Model,
    Observer,
    OptionError,
    Prediction,
    PromptContext,
    PromptTemplate,
    Reply,
    ReplyReader,
    Route,
    Status,
    by_reply,
    extract_choice,
    extract_label,
    extract_number,
    load_template,
)
from figeval.config import IGNORED_MODEL_ARGS
from figeval.io.frontend import warn
from figeval.io.text import clean, clean_json, pluralize
from figeval.records import provenance
from figeval.records.schema import ModelRecord
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.items import (
    TEXT,
    TEXT_A,
    TEXT_B,
    TIE,
    Fields,
    Key,
    Questionnaire,
    read_key,
    read_questionnaire,
)
from figeval.wings.annotation.judge_record import (
    JudgeAnswers,
    JudgeFiles,
    JudgeQuestion,
    JudgeRecord,
    JudgeRow,
    question_id,
)
from figeval.wings.annotation.kinship import kinship

NAME = re.compile(r"[\w.-]{1,80}")
TEMPLATE, TEMPLATE_OF_EXAMPLES = "_default/judge.jinja", "_default/judge_example.jinja"
TEMPLATE_OF_BATTLES = "_default/judge_battle.jinja"
CHOICES = {TEXT_A: f"text {TEXT_A}", TEXT_B: f"text {TEXT_B}", TIE: TIE}  # what a reply may call the labels of a battle
MAX_LABEL_TOKENS, MAX_CHAT_TOKENS = 16, 512  # of a reply: a chat model writes other text before the label


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Arguments of `figeval.judge_items`, which describes them.

    Attributes:
        template: template file with the blocks `context` and `word`; by default, the built-in one.
        limit: number of items to judge, which are a random part because items are numbered at random.
        common: device, seed, budgets and `batch`, for models that take them.
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
        options = {name: value for name, value in self.options.items() if name not in IGNORED_MODEL_ARGS}
        plain: JSON = clean_json(json.loads(json.dumps(options, default=str)))
        return plain

    def load_template(self, sheet: Questionnaire) -> PromptTemplate:
        """Return the given template, or the built-in one for texts, for battles or for examples as a whole."""
        if self.template is not None:
            return load_template(self.template.name, self.template.parent)
        if sheet.is_of_battles:
            return load_template(TEMPLATE_OF_BATTLES)
        has_texts = any(name == TEXT for fields in sheet.items.values() for name, _ in fields[-1:])
        return load_template(TEMPLATE if has_texts else TEMPLATE_OF_EXAMPLES)


def ask_judge(judging: Judging, harness: Harness, observer: Observer) -> JudgeAnswers:
    """Ask a model about all items that it has not judged yet, and store its answers next to the key.

    Raises:
        OptionError: the items are questions with an answer, the name cannot be part of a file name, or files with this
            name come from another model, prompt or version of the texts.
        DataError: there are no items.
        CapabilityError: the model can neither compare labels nor reply in words.
        FolderInUse: another process is judging with this name.
        BudgetExhausted: the next question would exceed a budget; earlier answers are kept.
        NotFinished: a batch is being processed; the same call collects the answers later.
        RecordError: the folder cannot be written.
    """
    key = read_key(judging.folder)
    if key.gold:
        raise OptionError(
            f"{judging.folder} has questions with a right answer, which need no judge; use `figeval run --tasks "
            f"{quote(key.task)} --model {quote(judging.model)}`"
        )
    sheet = read_questionnaire(judging.folder, key)
    template = judging.load_template(sheet)
    texts = _digest_of_texts(sheet)
    account = _digest([judging.model, judging.answer_options, template.sha256, texts])[:16]
    common = {**judging.common, "account": account}
    files = JudgeFiles(judging.folder, judging.file_name, key)
    with harness.open_model(judging.model, judging.options, common) as model:
        reader = _battle_reader(harness) if sheet.is_of_battles else _rating_reader(harness)
        route = _choose_route(model, harness, reader)
        contexts = {criterion.name: _context(model, sheet, criterion, template) for criterion in sheet.criteria}
        questions = list(_questions(key, sheet, judging.limit))
        time, model_record = provenance.now(), _model_record(model, harness)
        record = JudgeRecord(
            model=model.name,
            options=judging.answer_options,
            fingerprint=model_record.fingerprint,
            template=template.name,
            template_sha256=template.sha256,
            texts_sha256=texts,
            method="generate" if route.reader is not None else "loglikelihood",
            readers=reader.version,
            seed=judging.common.get("seed") or 0,
            figeval=provenance.installed_version("figeval"),
            started=time,
            updated=time,
            items=len({question.item for question in questions}),
            questions=len(questions),
            kinship=kinship(model_record, key.authors, key.models),
        )

        def begin(question: JudgeQuestion) -> Dialogue:
            return route.begin(question, contexts[question.criterion.name])

        with files.answers.locked():
            interview = _Interview(files, questions, begin, model, in_batches="batch" in judging.common)
            return interview.collect_answers(record, observer)


def _questions(key: Key, sheet: Questionnaire, limit: int | None) -> Iterator[JudgeQuestion]:
    """Yield the questions about the first items; each battle is asked about in both orders, and only once."""
    battles, met = key.battles, set()
    for item in sheet.numbers[:limit]:
        orders = (False, True) if item in battles else (False,)
        if battle := battles.get(item):
            meeting = (frozenset((battle.author, battle.opponent)), battle.example)
            if meeting in met:
                continue
            met.add(meeting)
        for criterion in sheet.criteria:
            for swapped in orders:
                name = question_id(item, criterion.name, swapped=swapped)
                yield JudgeQuestion(id=name, item=item, criterion=criterion, swapped=swapped)


@dataclass(frozen=True, slots=True)
class _Interview:
    """The questions to a judge, and where its answers are stored."""

    files: JudgeFiles
    questions: Sequence[JudgeQuestion]
    begin: Callable[[JudgeQuestion], Dialogue]
    model: Model
    in_batches: bool

    def collect_answers(self, record: JudgeRecord, observer: Observer) -> JudgeAnswers:
        """Ask the questions without a stored answer, store the answers, and return all that are stored."""
        record = self.files.continue_record(record)
        rows = {row.question: row for row in self.files.answers.rows()}
        inquiry = Inquiry(lambda: self.questions, self.begin, rows.keys)
        missing = [question.id for question in inquiry.missing()]
        for sentence in record.kin():
            warn(f"judge {self.model.name}: {sentence}, so also use a judge of another family")
        record = self.files.write_record(record, rows.values())
        inquiry.announce_cost(self.model)
        answered = len(self.questions) - len(missing)
        observer.start(f"judge {self.model.name}", len(self.questions), answered, unit="question")
        try:
            with self.files.answers.appending() as append:

                def store(question: JudgeQuestion, prediction: Prediction) -> None:
                    row = JudgeRow.of(question, prediction)
                    append(row)
                    rows[question.id] = row

                for count in inquiry.answer(self.model, store, in_batches=self.in_batches):
                    answered += count
                    observer.reach(answered)
            is_complete = answered == len(self.questions)
            observer.end("" if is_complete else f"{answered} of {pluralize(len(self.questions), 'question')} answered")
        finally:
            if missing:
                # Without a question, an API model does not know what it has cost.
                record = record.model_copy(update={"description": clean_json(self.model.description())})
            record = self.files.write_record(record, rows.values())
        in_order = {question.id: rows[question.id] for question in self.questions if question.id in rows} | rows
        failed = sum(question not in rows for question in missing)
        return JudgeAnswers(
            self.files.name,
            record,
            tuple(in_order.values()),
            failed,
            frozenset(question.item for question in self.questions),
        )


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _digest_of_texts(sheet: Questionnaire) -> str:
    # Without what is empty, so that judges of items from before there were instructions can continue.
    criteria = [criterion.model_dump(exclude_defaults=True) for criterion in sheet.criteria]
    return _digest([sheet.items, criteria, *([sheet.instructions] if sheet.instructions else [])])


def _read_rating(question: JudgeQuestion, context: PromptContext, reply: Reply) -> Prediction:
    reply = replace(reply, text=clean(reply.text))
    status: Status
    label: str | None
    if all(label.isdecimal() for label in context.labels):
        status, number = extract_number(reply, [float(label) for label in context.labels])
        label = next((label for label in context.labels if number is not None and float(label) == number), None)
    else:
        extracted = extract_label(reply, [(label,) for label in context.labels])
        status, label = extracted.status, None if extracted.index is None else context.labels[extracted.index]
    return Prediction(example_id=question.id, value=label, status=status)


def _read_choice(question: JudgeQuestion, context: PromptContext, reply: Reply) -> Prediction:
    texts = [CHOICES[label] for label in context.labels]
    letters = [label[0].upper() for label in context.labels]
    nouns = {"option": ["text"], "answer": ["choice"]}
    extracted = extract_choice(replace(reply, text=clean(reply.text)), texts, letters, nouns)
    label = None if extracted.index is None else context.labels[extracted.index]
    return Prediction(example_id=question.id, value=label, status=extracted.status)


def _model_record(model: Model, harness: Harness) -> ModelRecord:
    record = harness.model_record(model, with_lineage=True)
    return record.model_copy(update={"description": clean_json(model.description())})


def _route_of_pairs(harness: Harness, name: str) -> Route:
    return next(route for route in harness.routes.of("pairs") if route.name == name)


def _rating_reader(harness: Harness) -> ReplyReader:
    """Return the reader of ratings. It follows the rules of label words, so its version is that of their reader."""
    reader = _route_of_pairs(harness, "by_label_word").reader
    assert reader is not None
    return replace(reader, function=_read_rating)


def _battle_reader(harness: Harness) -> ReplyReader:
    """Return the reader of choices. It follows the rules of option letters, so its version is that of their reader."""
    readers = (route.reader for route in harness.routes.of("choice") if route.name == "by_letter")
    reader = next(reader for reader in readers if reader is not None)
    return replace(reader, function=_read_choice)


def _choose_route(model: Model, harness: Harness, reader: ReplyReader) -> Route:
    for route in (_route_of_pairs(harness, "by_verbalizer"), by_reply("by_rating", "word", reader)):
        if route.needs <= model.offers:
            return route
    offers = ", ".join(sorted(model.offers)) or "nothing"
    raise CapabilityError(
        f"{model.name} cannot judge: it needs loglikelihood or generate, and offers {offers}; use a language model"
    )


def _context(model: Model, sheet: Questionnaire, criterion: Criterion, template: PromptTemplate) -> PromptContext:
    """Return the prompts of a criterion; a line feed ends the labels if one begins with another, as 10 with 1."""
    is_chat, labels = model.is_chat_model, criterion.labels
    is_prefix = any(a != b and b.startswith(a) for a in labels for b in labels)
    return PromptContext(
        block=lambda block, question, **_: template.render(
            block, _variables(_shown(sheet, question), criterion, sheet.instructions)
        ),
        labels=labels,
        verbalizer={label: (f"{label}\n" if is_prefix else label,) for label in labels},
        chat=model.chat,
        stop=() if is_chat else ("\n",),
        max_new_tokens=MAX_CHAT_TOKENS if is_chat else MAX_LABEL_TOKENS,
    )


def _shown(sheet: Questionnaire, question: JudgeQuestion) -> Fields:
    """Return the parts of an item as a question shows them: with its two texts exchanged if they are swapped."""
    parts = sheet.items[question.item]
    if not question.swapped:
        return parts
    texts = dict(parts)
    swapped = {TEXT_A: texts[TEXT_B], TEXT_B: texts[TEXT_A]}
    return tuple((name, swapped.get(name, text)) for name, text in parts)


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
