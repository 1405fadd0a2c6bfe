"""Metrics of faithfulness: does a story teach a moral, according to a classifier (Guan et al. 2022, Table 14)?

The classifier is any model that `figeval train` has trained on `storal_faithfulness_en` or `_zh`, i.e. on stories with
their own morals and with those of other stories. For st2mo, it judges the story and the written moral; for mo2st, the
beginning with the written continuation, and the given moral.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from figeval import (
    Batched,
    GenerationExample,
    Measured,
    MetricContext,
    MetricModel,
    PairExample,
    PairLabel,
    Prediction,
    answered,
    batched,
)
from figeval.errors import ModelError, TaskError
from figeval.io.validation import validate

from .storal_rows import MATCHED, MISMATCHED

TRAINED_ON = {"storal_faithfulness_en": "en", "storal_faithfulness_zh": "zh"}  # task → language
LABELS = (MATCHED, MISMATCHED)
NO_TEXT = "the classifier has no text to judge"
BLANK = {"zh": ""}  # between the beginning of a story and its written continuation
SEEN_PAIRS = {
    "trained": "pairs that the classifier was trained on",
    "chosen": "pairs that the classifier was chosen on",
}
CUT_TEXTS = "texts cut to the length of the classifier"
NOT_A_NUMBER = "texts for which the classifier gives no number"

AGAIN = "run its `figeval train` command again, which adds it"

Share = Annotated[float, Field(ge=0, le=1)]
Cases = Sequence[tuple[GenerationExample, Prediction]]


def faithfulness(context: MetricContext) -> Batched:
    """Return the metric of the share of written texts that the classifier calls matched; a tie counts as half."""
    judge = judge_of(context)
    return judge.metric(lambda cases: judge.measure(cases, written_text, verdict))


def faithfulness_probability(context: MetricContext) -> Batched:
    """Return the metric of the mean probability of "matched" over the written texts."""
    judge = judge_of(context)
    return judge.metric(lambda cases: judge.measure(cases, written_text, float))


def faithfulness_references(context: MetricContext) -> Batched:
    """Return the metric `faithfulness` of the human texts instead, over the examples that have a written text."""
    judge = judge_of(context)
    return judge.metric(lambda cases: judge.measure(cases, human_text, verdict))


def verdict(probability: float) -> float:
    """Return 1 for a pair that is more probably matched than not, 0.5 for a tie and 0 otherwise."""
    return 0.5 if probability == 0.5 else float(probability > 0.5)


# ---- judged texts ----------------------------------------------------------------------------------------------------


def written_text(_example: GenerationExample, prediction: Prediction) -> str | None:
    """Return the text, or None if it is missing or blank: unknown is not unfaithful."""
    if not answered(prediction) or not isinstance(prediction.value, str):
        return None
    return prediction.value.strip() or None


def human_text(example: GenerationExample, prediction: Prediction) -> str | None:
    """Return the first reference, or None if there is no written text to compare it with."""
    return example.references[0] if written_text(example, prediction) is not None else None


def story_and_moral(example: GenerationExample, text: str, language: str) -> tuple[str, str]:
    """Return the story and the moral for the classifier, one of which was written by the model.

    Raises:
        TaskError: the inputs are neither `story` nor `moral` and `beginning`.
    """
    inputs = example.inputs
    match inputs:
        case {"story": str() as story}:
            return story, text
        case {"moral": str() as moral, "beginning": str() as beginning}:
            return f"{beginning}{BLANK.get(language, ' ')}{text}", moral
    raise TaskError(
        "faithfulness applies to texts written for a `story`, or for a `moral` and a `beginning`; example "
        f"{example.id!r:.80} has the inputs {', '.join(inputs)}; leave out the task or the metric"
    )


# ---- the classifier --------------------------------------------------------------------------------------------------


class HeldOut(BaseModel):
    """A classifier's accuracy from figeval.json, which is validated because the file need not be figeval's."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    split: Literal["test", "dev"]
    value: Share
    low: Share | None = None
    high: Share | None = None
    n: PositiveInt


@dataclass(frozen=True, slots=True)
class Judge:
    """A trained classifier of stories and morals.

    Attributes:
        name: name given by the user.
        model: the classifier.
        language: language of the pairs that it was trained on.
    """

    name: str
    model: MetricModel
    language: str

    def metric(self, measure: Callable[[Cases], Sequence[Measured]]) -> Batched:
        """Return a metric that checks examples and describes this classifier."""
        return batched(measure, absent=NO_TEXT, check=self.check, describe=self.describe)

    def check(self, example: GenerationExample) -> None:
        """Raise `TaskError` for an example that has no story to judge."""
        story_and_moral(example, "", self.language)

    def measure(
        self,
        cases: Cases,
        text_of: Callable[[GenerationExample, Prediction], str | None],
        value: Callable[[float], float],
    ) -> list[Measured]:
        """Judge one text of each case; `value` turns the probability of "matched" into the metric's value."""
        texts = [text_of(example, prediction) for example, prediction in cases]
        pairs = [
            None if text is None else story_and_moral(example, text, self.language)
            for (example, _), text in zip(cases, texts, strict=True)
        ]
        requests = [PairLabel(*pair, LABELS) for pair in pairs if pair is not None]
        answers = iter(self.model.answer(requests) if requests else ())
        return [
            Measured(None) if pair is None else self._measure_pair(example, *next(answers), value)
            for (example, _), pair in zip(cases, pairs, strict=True)
        ]

    def _measure_pair(
        self, example: GenerationExample, answer: Mapping[str, Any], cut: bool, value: Callable[[float], float]
    ) -> Measured:
        probability = best(answer[MATCHED])
        unknown = math.isnan(probability)
        story, moral = story_and_moral(example, example.references[0], self.language)
        role = self.model.role(PairExample(id=example.id, left=story, right=moral, label=None))
        remarks = ((NOT_A_NUMBER, unknown), (CUT_TEXTS, cut), (SEEN_PAIRS.get(role or "", ""), role is not None))
        return Measured(None if unknown else value(probability), tuple(text for text, holds in remarks if holds))

    def describe(self) -> dict[str, Any]:
        """Return the fingerprint, the training task, the held-out accuracy, and a remark about them for readers."""
        training = self.model.about
        score = training["held_out"]
        keys = ("task", "split", "metric", "value", "low", "high", "n")
        return {
            "fingerprint": self.model.fingerprint,
            "trained_on": training["task"],
            "held_out": {key: score.get(key) for key in keys},
            "remark": f"judged by {self.name}, trained on {training['task']}, {accuracy(score)}",
        }


def best(probability: float | Iterable[float]) -> float:
    """Return the probability of a label, the highest one if several classes represent it."""
    return float(probability) if isinstance(probability, int | float) else max(map(float, probability))


def accuracy(score: Mapping[str, Any]) -> str:
    """Describe the classifier's own accuracy in words."""
    low, high = score.get("low"), score.get("high")
    sample = f"of {score['n']} held-out pairs ({score['split']})"
    if low is None or high is None:
        return f"which is right in {score['value']:.1%} {sample}, without an interval"
    description = f"which is right in {score['value']:.1%} [{low:.1%}, {high:.1%}] {sample}"
    return description if low > 0.5 else f"{description}: no better than chance"


def judge_of(context: MetricContext) -> Judge:
    """Return the classifier that a metric names.

    Raises:
        ModelError: there is no such model; it was not trained on unchanged stories and morals of the task's language;
            or its accuracy is not stored.
    """
    training, metric = context.trained(context.argument), f"metric {context.name}={context.argument}"
    task = training.get("task")
    language = next(iter(context.languages))
    suitable_task = next((name for name, trained_language in TRAINED_ON.items() if trained_language == language), None)
    if suitable_task is None or len(context.languages) > 1:
        languages = ", ".join(context.languages)
        raise ModelError(f"{metric}: classifiers exist for {' and '.join(TRAINED_ON.values())}, not for {languages}")
    cure = f"`figeval train --task {suitable_task} --model MODEL --output FOLDER` trains a suitable one"
    if task not in TRAINED_ON:
        history = f"was trained on {task}" if task else "was not trained by figeval"
        raise ModelError(f"{metric}: it {history} and is not a classifier of stories and morals; {cure}")
    model = context.model(context.argument)
    if "label_pairs" not in model.capabilities:
        raise ModelError(f"{metric}: its head cannot label pairs; {cure}")
    if TRAINED_ON[task] != language:
        raise ModelError(f"{metric}: it was trained on {task}, and {context.task} is in {language!r}; {cure}")
    for key in ("probe", "augment"):
        if training.get(key):
            raise ModelError(f"{metric}: it was trained with --{key}, so it expects different inputs; {cure}")
    score = training.get("held_out")
    if not score or (isinstance(score, dict) and (score.get("metric") != "acc" or score.get("value") is None)):
        raise ModelError(
            f"{metric}: its figeval.json has no held-out accuracy, without which its judgements cannot be "
            f"assessed; {AGAIN}, "
            "or train one without --select_on test"
        )
    validate(score, f"{metric}: `about.held_out` of its figeval.json", HeldOut, ModelError, cure=AGAIN)
    return Judge(context.argument, model, language)
