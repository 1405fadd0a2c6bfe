"""The task type `surprisal`: its pieces, what models say about them, against plain loops, and metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import Continuation, FigevalError, Harness, Prediction
from figeval.testing import CapabilityCheck, ask, capabilities, check_model, check_task_type, predict
from figeval.testing.fakes import FakeLanguageModel
from tests.cli.conftest import Cli
from tests.plugins.tiny import LINES, LONG_TEXT, POSITIONS, Workshop

SURPRISAL = Harness().task_types.get("surprisal")
Example = SURPRISAL.Example
BY_WORDS, BY_LOGLIKELIHOOD = SURPRISAL.routes
(WordScores,) = BY_WORDS.requests
CASES = json.loads((Path(__file__).parents[1] / "golden/plugins/surprisal_metrics.json").read_text("utf-8"))["cases"]
TASK = """
name: texts
description: Texts.
type: surprisal
data: {{test: "jsonl:texts.jsonl"}}
fields: {fields}
{keys}
"""
FIELDS = ("text", "context", "words", "region", "measures", "contrast", "contrast_words", "contrast_region")
ROWS: list[dict[str, Any]] = [
    {
        "id": "1",
        "text": "The office was a beehive.",
        "context": "We ran.",
        "region": "a beehive",
        "contrast": "It was.",
    },
    {"id": "2", "text": "Don't, he said.", "measures": [250, None, 301.5], "words": ["Don't,", "he", "said."]},
]
REQUESTS = [WordScores("", (line[: line.index(" ")], line[line.index(" ") :])) for line in LINES]


class Scripted:
    """A model that has a list of bits for each text."""

    deterministic_by_name = True
    capabilities = ("score_words",)

    def __init__(self, bits: dict[str, list[float | None]]) -> None:
        self.bits = bits
        self.requests: list[Any] = []

    def score_words(self, requests: Sequence[Any]) -> list[list[float]]:
        self.requests += requests
        return [
            [math.nan if number is None else -number * math.log(2) for number in self.bits["".join(request.pieces)]]
            for request in requests
        ]


def write_texts(folder: Path, rows: Sequence[dict[str, Any]], keys: str = "") -> Path:
    """Write a task `texts` with the fields that some of the rows have."""
    names = [name for name in FIELDS if any(name in row for row in rows)]
    fields = {name: f"row.{name}" for name in ("id", *names)}
    (folder / "texts.task.yaml").write_text(TASK.format(fields=json.dumps(fields), keys=keys), encoding="utf-8")
    content = [{**dict.fromkeys(names), **row, "id": str(number)} for number, row in enumerate(rows)]
    (folder / "texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
    return folder


def run(folder: Path, rows: Sequence[dict[str, Any]], model: Any, keys: str = "") -> figeval.Run:
    return figeval.run("texts", model, include_path=write_texts(folder, rows, keys), output_path=folder / "run")


def bits_of(prediction: Prediction) -> list[float | None]:
    """Surprisal of each piece of the text, in order."""
    assert prediction.value is not None
    return [piece.bits for piece in prediction.value.text.pieces]


def texts(prediction: Prediction, text: str) -> list[str]:
    assert prediction.value is not None
    return [text[piece.start : piece.end] for piece in prediction.value.text.pieces]


# ---- contract --------------------------------------------------------------------------------------------------------


def test_the_type_keeps_to_the_contract(open_model: Callable[..., Any]) -> None:
    rows = [{name: row.get(name) for name in ("id", *FIELDS)} for row in ROWS]
    check_task_type(SURPRISAL, rows, models=[open_model("uniform_bytes")])


def test_the_floor_keeps_to_the_contract(open_model: Callable[..., Any]) -> None:
    def wrong(request: Any, answer: Any) -> str:
        return "" if len(answer) == len(request.pieces) and all(number <= 0 for number in answer) else f"{answer}"

    scores_words = CapabilityCheck("score_words", REQUESTS, wrong)
    check_model(lambda: open_model("uniform_bytes"), checks=[scores_words])


# ---- pieces ----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=60).filter(str.strip), st.text(max_size=9))
def test_pieces_are_all_of_a_text_but_its_blanks(text: str, context: str) -> None:
    model = FakeLanguageModel(function=lambda _context, continuation: -float(len(continuation)))
    (prediction,) = predict(BY_LOGLIKELIHOOD, model, [Example(id="1", text=text, context=context)])
    pieces = prediction.value.text.pieces if prediction.value is not None else []
    assert "".join(text[piece.start : piece.end] for piece in pieces) == "".join(text.split())
    assert all(left.end <= right.start for left, right in pairwise(pieces))
    assert SURPRISAL.from_json(json.loads(json.dumps(SURPRISAL.to_json(prediction.value)))) == prediction.value


def test_each_word_continues_what_precedes_it(tmp_path: Path) -> None:
    model = FakeLanguageModel(function=lambda _context, continuation: -float(len(continuation)))
    example = Example(id="1", text="Well, (he) can't.", context="So.")
    (prediction,) = predict(BY_LOGLIKELIHOOD, model, [example])
    requests = [request for request in model.asked if isinstance(request, Continuation)]
    assert [request.continuation for request in requests] == [" Well", ",", " (", "he", ")", " can't", "."]
    assert all(request.context + request.continuation in "So. Well, (he) can't." for request in requests)
    assert texts(prediction, example.text) == ["Well", ",", "(", "he", ")", "can't", "."]


@pytest.mark.parametrize(("language", "segmenter", "words"), [("zh", "jieba", 3), ("zh", "", 6), ("en", "", 6)])
def test_words_are_those_of_the_task(language: str, segmenter: str, words: int, tmp_path: Path) -> None:
    if segmenter:
        pytest.importorskip(segmenter)
    keys = f"language: {language}\n" + (f"segmenter: {segmenter}\n" if segmenter else "")
    done = run(tmp_path, [{"text": "画蛇添足故事。"}], "uniform_bytes", keys)
    ((row,),) = [list(done.rows("texts"))]
    assert len(row["pred"]["text"]["words"]) == words or segmenter
    assert row["pred"]["text"]["words"][0][2] == 8 * 3 * row["pred"]["text"]["words"][0][1]


def test_the_blank_after_a_context_belongs_to_the_first_word() -> None:
    """It does so whether the tokenizer joins both or not; no blank is put where a script has none."""
    model = Scripted({"他": [1.0], " He": [1.0], "He": [1.0]})
    predict(BY_WORDS, model, [Example(id=context, text=text, context=context) for context, text in [
        ("她说。", "他"), ("Yes.", "He"), ("No. ", "He"), ("Yes.\n", "He"), ("", "He")
    ]])  # fmt: skip
    requests = [(request.context, *request.pieces) for request in model.requests]
    assert requests == [("她说。", "他"), ("Yes.", " He"), ("No.", " He"), ("Yes.\n", "He"), ("", "He")]


def test_a_byte_of_the_floor_has_eight_bits_after_a_context(tmp_path: Path) -> None:
    done = run(tmp_path, [{"text": "5 is odd.", "context": "Yes."}], "uniform_bytes")
    (score,) = (score for score in done.record.tasks[0].scores if score.metric == "bits_per_byte")
    assert score.value == 8


@pytest.mark.parametrize(
    "row",
    [
        {"text": "  "},
        {"text": "Yes it is", "measures": [1, 2]},
        {"text": "Yes", "measures": ["much"]},
        {"text": "Yes", "measures": [True]},
        {"text": "Yes it is", "words": ["it", "Yes"]},
        {"text": "Yes", "words": [" "]},
        {"text": "Yes", "region": "No"},
        {"text": "Yes", "contrast": " "},
        {"text": "Yes", "contrast": None, "contrast_words": ["No"]},
        {"text": "Yes", "contrast": None, "contrast_region": "No"},
    ],
)
def test_rows_that_make_no_sense_are_refused(row: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    write_texts(tmp_path, [row])
    assert cli("validate", "texts", "--include_path", tmp_path).code != 0
    assert cli("run", "--tasks", "texts", "--model", "uniform_bytes", "--include_path", tmp_path).code == 2


# ---- models, against plain loops -------------------------------------------------------------------------------------


def plain_causal(folder: Path, text: str, context: str = "") -> list[tuple[float, int, int]]:
    """Log P of each token after the token that begins a text, with its position in the text."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    encoded = tokenizer(context + text, return_offsets_mapping=True, add_special_tokens=False)
    prefix = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = [prefix, *encoded["input_ids"]]
    with torch.inference_mode():
        logprobs = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    shift = len(context)
    positions = enumerate(encoded["offset_mapping"])
    return [(float(logprobs[at, ids[at + 1]]), start - shift, end - shift) for at, (start, end) in positions]


@pytest.mark.parametrize("context", ["", "He kicked the bucket. "])
def test_a_causal_model_says_what_a_plain_loop_says(
    context: str, workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    folder = workshop("gpt2", "LMHeadModel")
    model = open_model(f"causal:{folder}", device="cpu")
    examples = [Example(id=line, text=line, context=context) for line in LINES[:3]]
    for example, prediction in zip(examples, predict(BY_WORDS, model, examples), strict=True):
        tokens = plain_causal(folder, example.text, context)
        begin = -bool(context)  # a blank, also one in a token of its own, belongs to the word behind it
        for piece in prediction.value.text.pieces:
            bits = -sum(logprob for logprob, start, end in tokens if start < piece.end and end > begin)
            begin = piece.end
            assert piece.bits == pytest.approx(bits / math.log(2), abs=1e-4)
        everything = -sum(logprob for logprob, _, end in tokens if end > -bool(context)) / math.log(2)
        assert sum(filter(None, bits_of(prediction))) == pytest.approx(everything, abs=1e-3)


def test_a_long_text_is_read_in_windows_that_overlap(gpt2: Path, open_model: Callable[..., Any]) -> None:
    model = open_model(f"causal:{gpt2}", device="cpu")
    (short, long) = predict(BY_WORDS, model, [Example(id=text, text=text) for text in (LINES[0], LONG_TEXT)])
    assert (short.truncated, long.truncated) == (False, True)
    numbers = bits_of(long)
    assert None not in numbers
    assert numbers[: len(bits_of(short))] == pytest.approx(bits_of(short), abs=1e-4), "the first window sees it all"
    assert len(LONG_TEXT) > POSITIONS


def test_a_masked_model_hides_the_later_tokens_of_a_word(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder, text = workshop("bert"), LINES[5]
    tokenizer, plain = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()
    (prediction,) = predict(BY_WORDS, open_model("masked", folder), [Example(id="1", text=text)])
    encoded = tokenizer(text, return_offsets_mapping=True)
    for piece in prediction.value.text.pieces:
        positions = [at for at, (a, b) in enumerate(encoded["offset_mapping"]) if a < piece.end and b > piece.start]
        bits = 0.0
        for number, position in enumerate(positions):
            ids = list(encoded["input_ids"])
            for hidden in positions[number:]:
                ids[hidden] = tokenizer.mask_token_id
            with torch.inference_mode():
                logits = plain(input_ids=torch.tensor([ids])).logits[0, position].double()
            bits -= float(logits.log_softmax(-1)[encoded["input_ids"][position]]) / math.log(2)
        assert piece.bits == pytest.approx(bits, abs=1e-4)


def test_a_masked_model_sees_both_sides_of_a_word_in_a_long_text(
    workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    model = open_model("masked", workshop("bert"))
    words = [f" {word}" for word in LONG_TEXT.split()]
    middle = len(words) // 2
    near, far = ([*words[:index], " bucket", *words[index + 1 :]] for index in (middle - 1, 0))
    base, changed, same = (float(numbers[middle]) for numbers in ask(model, [
        WordScores("", tuple(pieces)) for pieces in (words, near, far)
    ]).values)  # fmt: skip
    assert base != pytest.approx(changed, abs=1e-6), "it sees the word before"
    assert base == pytest.approx(same, abs=1e-6), "but not one out of reach"


def test_pieces_in_one_token_are_encoded_apart(gpt2: Path, open_model: Callable[..., Any]) -> None:
    model = open_model(f"causal:{gpt2}", device="cpu")
    outputs = ask(model, [WordScores("", ("A", " stitch")), WordScores("", ("A", " s", *"titch"))])
    assert outputs.straddling == {1}
    assert [len(numbers) for numbers in outputs.values] == [2, 7]
    assert all(math.isfinite(number) for numbers in outputs.values for number in numbers)


def test_an_encoder_decoder_has_no_surprisal_of_its_own(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    assert "score_words" not in capabilities(open_model(f"hf:{workshop('t5', 'ForConditionalGeneration')}"))


# ---- metrics and commands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"][:40])
def test_metrics(case: dict[str, Any], tmp_path: Path) -> None:
    bits: dict[str, list[float | None]] = {}
    for row in case["rows"]:
        bits |= {row["text"]: row["bits"], **({row["contrast"]: row["contrast_bits"]} if "contrast" in row else {})}
    rows = [{key: value for key, value in row.items() if key in FIELDS} for row in case["rows"]]
    done = run(tmp_path, rows, Scripted(bits), f"metrics: [{', '.join(case['expect'])}]\nbaselines: []\n")
    values = {score.metric: score.value for score in done.record.tasks[0].scores}
    assert values == {name: pytest.approx(value) for name, value in case["expect"].items()}, case["why"]


def test_all_words_unknown_is_no_answer(tmp_path: Path) -> None:
    done = run(tmp_path, [{"text": "a b"}, {"text": "c"}], Scripted({"a b": [None, None], "c": [2]}))
    assert [row["status"] for row in done.rows("texts")] == ["nan", "ok"]


def test_a_run_is_verified_and_exported(cli: Cli, tmp_path: Path) -> None:
    rows = [
        {"text": "He said no.", "measures": [200, 250, 300], "contrast": "He did."},
        {"text": "No", "measures": [1]},
    ]
    done = run(tmp_path, rows, "uniform_bytes")
    assert cli("verify", done.path, "--include_path", tmp_path).code == 0
    lines = cli("export", done.path, "--to", "surprisals").out.splitlines()
    assert lines[0] == "model,task,id,version,word,start,end,bits,measure,text"
    assert lines[1] == "uniform_bytes,texts,0,text,1,0,2,16.0,200.0,"
    assert len(lines) == 1 + 3 + 2 + 1
    words = cli(
        "export", done.path, "--to", "surprisals", "--include_text", "--include_path", tmp_path
    ).out.splitlines()
    assert [line.rsplit(",", 1)[1] for line in words[1:]] == ["He", "said", "no", "He", "did", "No"]


def test_surprisals_of_other_systems(cli: Cli, tmp_path: Path) -> None:
    write_texts(tmp_path, [{"text": "He said."}])
    file = tmp_path / "bits.jsonl"
    words = ("score", "--tasks", "texts", "--predictions", file, "--include_path", tmp_path, "--output_path")
    for number, (answer, value) in enumerate(
        [
            ({"text": {"words": [[0, 2, 4.0], [3, 7, None]], "signs": [[7, 8, 1.0]]}}, 4),
            ({"text": {"words": [[0, 99, 1.0]], "signs": []}}, None),
            ({"text": {"words": [[0, 2, {}]], "signs": []}}, None),
            ([4, 5], None),
            ("much", None),
        ]
    ):
        file.write_text(json.dumps({"id": "0", "prediction": answer}), encoding="utf-8")
        outcome = cli(*words, tmp_path / f"run{number}")
        assert outcome.code == (0 if value else 2), outcome.err
        if value:
            assert figeval.load(tmp_path / f"run{number}").record.tasks[0].scores[0].value == value


def test_the_scaffold(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("new", "task", "metaphors", "--type", "surprisal").code == 0
    assert cli("validate", "metaphors/metaphors.task.yaml").code == 0


def test_a_stored_answer_that_was_changed_is_refused() -> None:
    stored = {"text": {"words": [[0, 2, 1.0]], "signs": []}}
    for words in (
        [[0, 9, 1.0]],
        [[2, 1, 1.0]],
        [["a", 2, 1.0]],
        [[0, 2, "much"]],
        [[0, 2, math.inf]],
        [[0, 2, 1.0]] * 2,
    ):
        value = SURPRISAL.from_json({**stored, "text": {"words": words, "signs": []}})
        assert SURPRISAL.value_problem(value, Example(id="1", text="ab"), ())
    assert not SURPRISAL.value_problem(SURPRISAL.from_json(stored), Example(id="1", text="ab"), ())
    with pytest.raises((FigevalError, KeyError, TypeError)):
        SURPRISAL.from_json({"text": []})
