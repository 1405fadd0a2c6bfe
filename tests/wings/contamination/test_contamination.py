"""What a model remembers: measures separate a model that knows a text from one that does not, and nothing is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import figeval
from figeval import Continuation, FigevalError, Prompt, Reply, hookimpl
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop as Tiny

MINI = Path(figeval.__file__).parents[1] / "tasks" / "mini"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (MINI / name).read_text(encoding="utf-8").splitlines()]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def write_texts(folder: Path, *texts: str) -> Path:
    """Write a task `texts` about these texts, and return its folder."""
    rows = [{"id": f"t{number}", "text": text} for number, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "texts.task.yaml").write_text(
        "name: texts\ntype: choice\ndata: {test: 'jsonl:texts.jsonl'}\nmemorized: row.text\n"
        "fields: {id: row.id, query: row.id, options: '[\"a\", \"b\"]', gold: '0'}\n"
    )
    return folder


class Knowing:
    """A model to which texts that it knows are likely, and all others the less likely the longer they are."""

    deterministic_by_name = True

    def __init__(self, texts: Sequence[str] = (), fails_at: int | None = None) -> None:
        self.known, self.calls, self.fails_at, self.requests = set(texts), 0, fails_at, 0

    def loglikelihood(self, requests: Sequence[Continuation]) -> list[float]:
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.requests += len(requests)
        return [
            -float(len(request.continuation)) * self.surprise(request.context + request.continuation)
            for request in requests
        ]

    def surprise(self, text: str) -> float:
        return 0.1 if text in self.known else 1.0


PROVERBS = [row["proverb"] for row in lines("proverbs.jsonl")]


@pytest.mark.slow
def test_a_model_that_knows_the_proverbs_is_told_from_one_that_does_not(tmp_path: Path) -> None:
    knows = figeval.contamination("mini_proverbs", Knowing(PROVERBS), output_path=tmp_path / "a")
    recall, rewrites = (knows.finding("mini_proverbs", name) for name in ("recall", "rewrites"))
    assert recall.score is not None and recall.floor is not None and recall.p is not None
    assert (recall.score.value, recall.score.n, recall.score.interval.method) == (1.0, 30, "wilson")
    assert recall.floor.value is not None and recall.floor.value < 0.5 and recall.p < 0.001
    assert rewrites.score is not None and rewrites.score.value == 1.0
    frame = knows.to_frame().set_index(["measure", "part"])
    assert frame.loc[("recall", None), "floor"] == recall.floor.value
    assert knows.to_dict()["tasks"][0]["findings"][0]["score"]["value"] == 1.0
    ignorant = figeval.contamination("mini_proverbs", Knowing(), name="other", output_path=tmp_path / "b")
    finding = ignorant.finding("mini_proverbs", "recall")
    assert finding.score is not None and finding.floor is not None and finding.score.value == finding.floor.value
    order = ignorant.finding("mini_proverbs", "order")
    assert order.p is not None and order.p > 0.05
    assert "not give the probabilities of single tokens" in ignorant.finding("mini_proverbs", "min_k").unavailable


def test_the_fingerprint_of_a_model_is_computed_as_often_for_many_texts_as_for_few(tmp_path: Path) -> None:
    """It may be a digest of its weights, or what a server says."""

    class Fingerprinted(Knowing):
        fingerprints = 0

        def fingerprint(self) -> str:
            self.fingerprints += 1
            return "1"

    few, many = Fingerprinted(), Fingerprinted()
    for model, limit in ((few, 5), (many, 30)):
        figeval.contamination("mini_proverbs", model, limit=limit, measures="recall", output_path=tmp_path / str(limit))
    assert many.requests > few.requests > 0
    assert many.fingerprints == few.fingerprints


def test_every_number_is_labelled_and_no_text_is_stored(tmp_path: Path) -> None:
    measurement = figeval.contamination(
        "mini_proverbs,mini_pairs", Knowing(PROVERBS), limit=20, output_path=tmp_path / "a"
    )
    table = str(measurement)
    assert all(
        line.rstrip().endswith("evidence, not proof")
        for line in table.splitlines()
        if line.startswith(("recall", "order"))
    )
    record = json.loads((tmp_path / "a" / "contamination.json").read_text())
    labels = {finding["label"] for task in record["tasks"] for finding in task["findings"]}
    assert labels == {record["label"]} == {"evidence, not proof"}
    stored = "".join(file.read_text() for file in (tmp_path / "a").iterdir() if file.is_file()).casefold()
    assert not [text for text in PROVERBS if text.casefold() in stored]
    assert not [row["expression"] for row in lines("pairs.jsonl")[:20] if row["expression"] in stored]


def test_an_interrupted_measurement_asks_for_nothing_twice(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        figeval.contamination("mini_proverbs", interrupted := Knowing(fails_at=3), name="m", output_path=tmp_path)
    answers = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert 0 < len(answers) == interrupted.requests
    (tmp_path / "answers.jsonl").write_text("\n".join(answers) + '\n{"key": "cut sh')
    resumed, uninterrupted = Knowing(), Knowing()
    measurement = figeval.contamination("mini_proverbs", resumed, name="m", output_path=tmp_path)
    fresh = figeval.contamination("mini_proverbs", uninterrupted, name="m", output_path=tmp_path / "fresh")
    assert resumed.requests == uninterrupted.requests - interrupted.requests
    assert measurement.record.tasks == fresh.record.tasks
    again = Knowing()
    figeval.contamination("mini_proverbs", again, name="m", output_path=tmp_path)
    assert again.calls == 0


class Writer:
    """A chat model that completes the sayings which it knows."""

    deterministic_by_name = True

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        return [self.reply(request.messages[-1].content.splitlines()[-1].removesuffix(" …")) for request in requests]

    def reply(self, beginning: str) -> Reply:
        proverb = next((text for text in PROVERBS[1:] if text.startswith(beginning)), None)
        if beginning and PROVERBS[0].startswith(beginning):
            return Reply(text="", finish="error", error="busy")
        return Reply(text="I do not know it" if proverb is None else f"{words_of(proverb)[-1].upper()}.")


def test_progress_counts_requests(cli: Cli, install: Callable[..., None]) -> None:
    plugin = ModuleType("knowing_plugin")

    @hookimpl
    def register_backends(register: Any) -> None:
        register("knowing", lambda model="": Knowing(PROVERBS), "a fake")

    plugin.register_backends = register_backends  # type: ignore[attr-defined]
    install(plugin)
    command = ("contamination", "--tasks", "mini_proverbs", "--model", "knowing", "--measures", "recall", "-o", "c")
    first, again = (cli(*command) for _ in range(2))
    (begin,) = [line for line in first.err.splitlines() if "requests" in line]
    assert re.fullmatch(r"mini_proverbs, recall: \d+ requests, about [1-9][\d,]* tokens at most", begin)
    assert re.search(r"^mini_proverbs, recall: done in [\d.]+ s$", first.err, re.MULTILINE)
    assert (first.code, again.code, first.out) == (0, 0, again.out)


def test_intervals_of_few_clusters_are_marked(tmp_path: Path) -> None:
    model = Knowing(PROVERBS[:15])
    for limit, marked in ((12, True), (None, False)):
        folder = tmp_path / str(limit)
        run = figeval.run("mini_proverbs", model, name="m", limit=limit, output_path=folder / "run", baselines=False)
        options: dict[str, Any] = {"measures": "recall", "limit": limit, "run": run.path}
        shown = str(figeval.contamination("mini_proverbs", model, name="m", output_path=folder / "c", **options))
        (line,) = (line for line in shown.splitlines() if line.strip().startswith("recalled"))
        assert ("]*" in line) == marked
        assert ("fewer than 10 effective clusters: the interval is unreliable" in shown) == ("]*" in shown)


class Awake(Writer):
    """The same without an error; it may be asked for one saying only, in order and shuffled."""

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        assert len(requests) <= 1
        return [Reply(text="nine")] * len(requests)


def test_models_that_only_write_complete_the_texts(tmp_path: Path) -> None:
    with pytest.warns(figeval.FigevalWarning, match=r"^Writer: 1 request failed; repeat the same call to ask again$"):
        measurement = figeval.contamination("mini_proverbs", Writer(), output_path=tmp_path)
    recall = measurement.finding("mini_proverbs", "recall")
    assert recall.settings == {"by": "generation"}
    assert recall.score is not None and (recall.score.value, recall.score.n) == (1.0, 29), "an error is not wrong"
    assert measurement.finding("mini_proverbs", "order").unavailable == "this model gives no log-likelihoods"
    stored = (tmp_path / "answers.jsonl").read_text().splitlines()
    repeated = figeval.contamination("mini_proverbs", Awake(), output_path=tmp_path, name="Writer")
    finding = repeated.finding("mini_proverbs", "recall")
    assert finding.score is not None and finding.score.n == 30, "what failed is asked again"
    assert (tmp_path / "answers.jsonl").read_text().splitlines()[: len(stored)] == stored


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (Reply(text="<think>five?</think> Nine."), 1.0),
        (Reply(text="A stitch in time saves nine"), 1.0),
        (Reply(text="Eight lives has a cat"), 0.0),
        (Reply(text=" … "), None),
        (Reply(text="nine", finish="refusal"), None),
    ],
)
def test_replies(reply: Reply, value: float | None, tmp_path: Path) -> None:
    class Replying:
        deterministic_by_name = True

        def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
            return [reply] * len(requests)

    folder = write_texts(tmp_path, "A stitch in time saves nine", "Look before you leap")
    options: dict[str, Any] = {"measures": "recall", "include_path": folder, "output_path": tmp_path / "c"}
    recall = figeval.contamination("texts", Replying(), **options).finding("texts", "recall")
    assert recall.values["t0"] == value


def test_scores_of_a_run_by_recall(tmp_path: Path) -> None:
    model = Knowing(PROVERBS[:15])
    run = figeval.run("mini_proverbs", model, name="m", output_path=tmp_path / "run", baselines=False)
    done = figeval.contamination("mini_proverbs", model, name="m", run=run.path, output_path=tmp_path / "c")
    accuracy, recall = (done.finding("mini_proverbs", name) for name in ("accuracy", "recall"))
    rows = {row.id: row for row in run.predictions("mini_proverbs").itertuples()}
    recalled = {identity[:3] for identity, value in recall.values.items() if value is not None and value > 0.5}
    accuracies = [row.acc for identity, row in rows.items() if identity[:3] in recalled]
    assert accuracy.parts["recalled"].value == pytest.approx(np.mean(accuracies))
    assert accuracy.parts["recalled"].n + accuracy.parts["not recalled"].n == 60
    assert accuracy.score is not None and accuracy.score.interval.method == "newcombe"
    with pytest.raises(FigevalError, match="another model"):
        figeval.contamination("mini_proverbs", Knowing(), name="n", run=run.path, output_path=tmp_path / "d")
    with pytest.raises(FigevalError, match="has no task mini_pairs; it has mini_proverbs"):
        figeval.contamination("mini_pairs", model, name="m", run=run.path, output_path=tmp_path / "e")
    with pytest.raises(FigevalError, match=r"another model or of other --model_args .m.; choose another --output_path"):
        figeval.contamination("mini_proverbs", Knowing(), name="n", output_path=tmp_path / "c")


@pytest.mark.slow
def test_other_options_of_a_model_continue_nothing(tmp_path: Path) -> None:
    model = str(Tiny(tmp_path)("gpt2", "LMHeadModel", n_positions=512))
    options: dict[str, Any] = {"measures": ["recall"], "limit": 4, "output_path": tmp_path / "c"}
    for _ in range(2):
        figeval.contamination("mini_proverbs", model, model_args={"attn_implementation": "sdpa"}, **options)
    with pytest.raises(FigevalError, match="other --model_args"):
        figeval.contamination("mini_proverbs", model, model_args={"attn_implementation": "eager"}, **options)


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path) -> None:
    assert "use a language model" in cli("contamination", "--tasks", "mini_proverbs", "--model", "tfidf").complaint
    lacking = ("contamination", "--tasks", "mini_fables", "--model", "smollm2", "--measures", "recall")
    assert "tasks with it: " in cli(*lacking).complaint
    assert "did you mean" in cli(*lacking[:-1], "recal").complaint
    task = tmp_path / "t.task.yaml"
    task.write_text(
        "name: t\ntype: ranking\ndata: {test: 'mini:retrieval'}\n"
        "fields: {id: row.id, query: row.narrative, candidates: row.candidates, relevant: row.relevant}\n"
        "memorized: row.provreb\n"
    )
    with pytest.raises(FigevalError, match=r"t: row 1 of 'mini:retrieval', memorized: .*provreb"):
        figeval.contamination("t", Knowing(), include_path=tmp_path, output_path=tmp_path / "x")


def test_a_swap_changes_the_order_of_words_alone(tmp_path: Path) -> None:
    texts = [*PROVERBS, "Ένα χελιδόνι δεν φέρνει την άνοιξη", "to be or not to be, that is the question", "No."]

    class Listening(Knowing):
        def surprise(self, text: str) -> float:
            seen.add(text)
            return super().surprise(text)

    seen = set[str]()
    folder = write_texts(tmp_path, *texts)
    options: dict[str, Any] = {"measures": "rewrites", "include_path": folder, "output_path": tmp_path / "c"}
    figeval.contamination("texts", Listening(), **options)
    words = [sorted(words_of(text.lower())) for text in seen - {*texts}]
    for text in texts[:-1]:
        assert words.count(sorted(words_of(text.lower()))) >= 1, text
    assert sorted(words_of("no")) not in words


# ---- a model that has been trained on half of the data ---------------------------------------------------------------


def half(folder: Path, name: str, rest: int) -> list[dict[str, Any]]:
    """Write a task with every second proverb, and return its rows."""
    proverbs = {row["id"]: row["proverb"] for row in lines("proverbs.jsonl")}
    keys = [key for number, key in enumerate(proverbs) if number % 2 == rest]
    rows = [
        {
            "id": row["id"],
            "key": row["proverb_id"],
            "text": row["narrative"][:80],
            "proverb": proverbs[row["proverb_id"]],
        }
        for row in lines("narratives.jsonl")
        if row["proverb_id"] in keys
    ]
    generator = np.random.default_rng(5)  # or the file would have an order with a system
    permuted = dict(zip(keys, generator.permutation(len(keys)), strict=True))
    rows.sort(key=lambda row: permuted[row["key"]])
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / f"{name}.task.yaml").write_text(
        f"name: {name}\ntype: choice\ndata: {{test: 'jsonl:{name}.jsonl'}}\ncluster: key\nmemorized: row.proverb\n"
        "fields: {id: row.id, query: row.text, options: '[row.proverb, \"None\"]', gold: '0', meta: {key: row.key}}\n"
    )
    return rows


def train_memorising(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Train a small model on the proverbs and on the texts in their order."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from tests.plugins.tiny import save

    everything = [row["narrative"] for row in lines("narratives.jsonl")] + PROVERBS
    trained_tokenizer = Tokenizer(models.BPE())
    trained_tokenizer.pre_tokenizer, trained_tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=["<|end|>"], initial_alphabet=alphabet)
    trained_tokenizer.train_from_iterator(everything, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained_tokenizer, eos_token="<|end|>")
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=64, n_layer=1, n_head=4))
    texts = [row["text"] for row in rows]
    documents = list(dict.fromkeys(row["proverb"] for row in rows))
    documents += texts[:1] + [f"{text}\n{other}" for text, other in pairwise(texts)]
    ids = [[0, *tokenizer(text)["input_ids"], 0] for text in documents]
    width = max(map(len, ids))
    inputs = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    labels = torch.tensor([row + [-100] * (width - len(row)) for row in ids])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(120):
        optimizer.zero_grad()
        model(input_ids=inputs, labels=labels).loss.backward()
        optimizer.step()
    save(model.eval(), tokenizer, folder / "memorised")
    return folder / "memorised"


@pytest.mark.slow
def test_a_trained_model_remembers_what_it_was_trained_on(tmp_path: Path) -> None:
    rows = half(tmp_path, "seen", 0)
    half(tmp_path, "unseen", 1)
    model = train_memorising(tmp_path, rows)
    measurement = figeval.contamination(
        "seen,unseen", str(model), include_path=tmp_path, output_path=tmp_path / "c", shards=3, device="cpu"
    )

    def value(task: str, measure: str) -> float:
        score = measurement.finding(task, measure).score
        assert score is not None and score.value is not None
        return score.value

    assert value("seen", "recall") > 0.8 and value("unseen", "recall") < 0.5
    assert value("seen", "rewrites") > value("unseen", "rewrites") + 0.2
    orders = {task: measurement.finding(task, "order").p for task in ("seen", "unseen")}
    assert orders["seen"] is not None and orders["seen"] < 0.001
    assert orders["unseen"] is not None and orders["unseen"] > 0.05
    for name in ("min_k", "min_k_plus"):
        assert value("seen", name) > value("unseen", name) + 0.1
