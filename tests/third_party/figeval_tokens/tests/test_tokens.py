"""Tests of the plugin itself, with what a plugin author can import."""

import pytest
from figeval_tokens.labelling import Tokens, TokensExample
from figeval_tokens.majority import MajorityTag
from figeval_tokens.metrics import ENTITY_F1, TOKEN_ACCURACY, entities, readable, sentence_accuracy
from figeval_tokens.replies import READER
from figeval_tokens.requests import TagTokens

from figeval import Prediction, PromptContext, Reply, Setup
from figeval.testing import CapabilityCheck, check_learner, check_metric, check_model, check_task_type

TAGS = ("B-FIG", "I-FIG", "O")
ROWS = [
    {"id": "1", "tokens": ["He", "got", "cold", "feet"], "tags": ["O", "O", "B-FIG", "I-FIG"]},
    {"id": "2", "tokens": ["His", "feet", "hurt"], "tags": ["O", "O", "O"]},
    {"id": "3", "tokens": ["She", "saw", "red"], "tags": ["O", "B-FIG", "I-FIG"]},
]
EXAMPLES = [TokensExample(id=row["id"], tokens=tuple(row["tokens"]), tags=tuple(row["tags"])) for row in ROWS]
FIRST_EXAMPLE = EXAMPLES[0]


def said(*tags, status="ok"):
    return Prediction(example_id="1", value=tags or None, status=status)


def wrong(request, tags):
    return "" if len(tags) == len(request.tokens) and set(tags) <= set(request.tags) else "not a tag for each token"


TAGGING = CapabilityCheck("tag_tokens", [TagTokens(example.tokens, TAGS) for example in EXAMPLES[:2]], wrong)


def test_the_task_type_keeps_to_the_contract():
    check_task_type(Tokens, ROWS, labels=TAGS, replies=['["O", "O", "B-FIG", "I-FIG"]', "He/O got/O cold/X feet/O"])


def test_the_trivial_model_keeps_to_the_contract():
    check_model(MajorityTag, examples=EXAMPLES, checks=[TAGGING])


def test_the_learner_and_what_it_trains_keep_to_the_contract():
    pytest.importorskip("torch")
    from figeval_tokens.tagger import TaggerLearner

    setup = Setup(model="scratch", labels=TAGS)
    check_learner(TaggerLearner, setup, EXAMPLES)
    learner = TaggerLearner(setup)
    check_model(learner.backend(learner.network()), checks=[TAGGING])


def test_the_metrics_keep_to_the_contract():
    check_metric(
        TOKEN_ACCURACY,
        [(FIRST_EXAMPLE, said("O", "O", "B-FIG", "I-FIG"), 1.0), (FIRST_EXAMPLE, said("O", "O", "O", "O"), 0.5)],
    )
    check_metric(
        ENTITY_F1,
        [
            (FIRST_EXAMPLE, said("O", "O", "B-FIG", "I-FIG"), 1.0),
            (FIRST_EXAMPLE, said("O", "B-FIG", "I-FIG", "O"), 0.0),
        ],
    )
    check_metric(
        sentence_accuracy,
        [(FIRST_EXAMPLE, said("O", "O", "B-FIG", "I-FIG"), 1.0), (FIRST_EXAMPLE, said("O", "O", "O", "O"), 0.0)],
    )
    check_metric(
        readable, [(FIRST_EXAMPLE, said("O", "O", "O", "O"), 1.0), (FIRST_EXAMPLE, said(status="unparseable"), 0.0)]
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-A I-A O B-A", {(0, 2, "A"), (3, 4, "A")}),
        ("B-A B-A", {(0, 1, "A"), (1, 2, "A")}),
        ("B-A I-B", {(0, 1, "A"), (1, 2, "B")}),
        ("I-A I-A", {(0, 2, "A")}),
    ],
)
def test_entities(tags, expected):
    assert entities(tags.split()) == expected


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("He/O got/O cold/B-FIG feet/I-FIG", "ok"),
        ('["O", "O", "B-FIG", "I-FIG"]', "ok"),
        ('{"tags": ["O", "O", "B-FIG", "I-FIG"]}', "ok"),
        ("<think>Cold feet is an idiom.</think> He/O got/O cold/B-FIG feet/I-FIG", "ok"),
        ("he/O got/O cold/B-FIG feet/I-FIG", "unparseable"),
        ("He/O got/O cold/B-FIG", "unparseable"),
        ("He/O got/O cold/FIG feet/FIG", "unparseable"),
        ("cold feet", "unparseable"),
        (" ", "empty"),
    ],
)
def test_replies(text, status):
    read = READER.read(FIRST_EXAMPLE, PromptContext(block=str, labels=TAGS), Reply(text=text))
    assert read.status == status
    assert read.value == (FIRST_EXAMPLE.tags if status == "ok" else None)
