"""Retrieval: what the nearest training examples hold is added to the input, or shown as solved examples."""

from __future__ import annotations

import json
import pickle
from functools import partial
from hashlib import sha256
from io import BytesIO

import click
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from figeval import (
    CapabilityError,
    ChoiceExample,
    DataError,
    Harness,
    ModelError,
    RunConfig,
    TaskError,
    compare,
    load,
    plugins,
)
from figeval.cli.shared import augmented
from figeval.io.observer import Observer
from figeval.language.content_words import content_words
from figeval.language.words import letters
from figeval.records.conditions import notes
from figeval.records.run_folder import RunFolder
from figeval.runs.preview import preview
from figeval.runs.retrieval.neighbours import BATCH, NearestExamples, Retriever
from figeval.runs.run import run
from figeval.task_types.choice import Choice
from figeval.testing.fakes import FakeEncoder, FakeGenerator, FakePairScorer
from tests.finished_runs import run as run_record
from tests.plugins.tiny import Workshop as Tiny

COLOURS = ("red", "green", "blue")
FIELDS = {"id": "row.id", "query": "row.q", "options": "row.o", "gold": "row.g", "meta": {"kind": "row.k"}}
NEIGHBOURS = {"add": "neighbours", "retriever": "colours", "k": 2}


def colour_vector(text):
    """A direction for each colour, so that texts are near whose colours are the same."""
    return [1.0 + 5 * text.split().count(colour) for colour in COLOURS]


def row(name, query, answer, kind):
    return {"id": name, "q": query, "o": [answer, "nothing"], "g": 0, "k": kind}


TRAIN = [
    row("t1", "red red", "an apple", "a"),
    row("t2", "red green", "a rose", "b"),
    row("t3", "green green", "a leaf", "c"),
    row("t4", "blue blue", "the sky", "d"),
    row("t5", "Red, red red", "a fire", "e"),
]
TEST = [row("q1", "red red red", "a brick", "a"), row("q2", "blue", "the sea", "f")]


@pytest.fixture
def colours(workshop):
    """A choice task of colours, and a retriever that knows them."""
    return Colours(workshop)


class Colours:
    def __init__(self, workshop):
        self.workshop = workshop
        self.retriever = FakeEncoder(function=colour_vector)
        workshop.backend = FakePairScorer()
        self.write()

    def write(self, name="t", train=TRAIN, test=TEST, **keys):
        folder = self.workshop.folder
        data = {"test": f"jsonl:{name}.test.jsonl", "train": f"jsonl:{name}.train.jsonl"}
        task = {"name": name, "type": "choice", "data": data, "fields": FIELDS, "cluster": "kind"}
        (folder / f"{name}.task.yaml").write_text(yaml.safe_dump(task | keys), encoding="utf-8")
        for split, rows in (("test", test), ("train", train)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{name}.{split}.jsonl").write_text(lines, encoding="utf-8")

    def harness(self):
        return self.workshop.harness(colours=self.retriever, words=FakePairScorer())

    def run(self, **settings):
        return self.workshop.run(harness=self.harness(), **settings).tasks[0]


# ---- what the model is asked -----------------------------------------------------------------------------------------


def test_the_model_sees_the_answers_of_the_nearest_others(colours):
    task = colours.run(augment=NEIGHBOURS)
    lefts = {request.left for request in colours.workshop.backend.asked}
    # t1 has the cluster of q1, t5 asks the same up to punctuation.
    assert lefts == {"a rose a leaf\nred red red", "the sky a rose\nblue"}
    assert [row["retrieved"] for row in colours.workshop.rows()] == [["t2", "t3"], ["t4", "t2"]]
    assert task.settings["augment"]["add"] == "neighbours" and task.settings["augment"]["from"] == "train"


def test_scores_rows_and_fingerprint_are_of_the_examples_as_they_are(colours):
    plain = colours.run()
    stored = colours.workshop.rows()
    augmented = colours.run(augment=NEIGHBOURS, fresh=True, log_samples=True)
    assert augmented.examples_sha256 == plain.examples_sha256
    assert [baseline.scores for baseline in augmented.baselines] == [baseline.scores for baseline in plain.baselines]
    assert [row["texts"][0] for row in colours.workshop.rows()] == ["red red red", "blue"]
    assert all("retrieved" not in row for row in stored)


def test_a_run_with_and_one_without_are_compared_as_paired(colours, tmp_path):
    paths = []
    for name, augment in (("plain", {}), ("augmented", NEIGHBOURS)):
        paths.append(tmp_path / name)
        config = RunConfig(tasks=("t",), model="model", output_path=paths[-1], augment=augment)
        run(config, colours.harness(), Observer())
    comparison = compare(*paths)
    ((compared,),) = (pair.tasks for pair in comparison.result.pairs.values())
    assert (compared.task, compared.unmatched_a, compared.unmatched_b) == ("t", 0, 0)
    title, *_ = lines = str(comparison).splitlines()
    assert title == "acc: A = model, B = model + neighbours"
    assert "  B: augmented: the 2 nearest training examples (colours)" in lines
    assert comparison.to_dict()["b"]["conditions"] == ["augmented: the 2 nearest training examples (colours)"]
    assert "  augmented: the 2 nearest training examples (colours)" in str(load(paths[1])).splitlines()


def test_a_task_file_says_so_and_a_flag_replaces_it(colours):
    colours.write(augment=NEIGHBOURS)
    assert colours.run().settings["augment"]["k"] == 2
    assert colours.run(augment={**NEIGHBOURS, "k": 1}, fresh=True).settings["augment"]["k"] == 1
    assert "augment" not in colours.run(augment={"add": "none"}, fresh=True).settings


def test_a_probe_without_a_query_gets_nothing(colours):
    colours.write(floor="no_query")
    colours.run(augment=NEIGHBOURS)
    assert "" in {request.left for request in colours.workshop.backend.asked}
    task, probe, *_ = RunFolder(colours.workshop.path / "run").read().tasks
    assert probe.variant == "no_query" and "augment" not in probe.settings
    assert list(notes(run_record(task, probe))) == ["augmented: the 2 nearest training examples (colours)"]


def test_preview_shows_it(colours):
    config = RunConfig(tasks=("t",), model="model", augment=NEIGHBOURS)
    ((_, example, (prompts,)), *_) = preview(config, colours.harness(), 1)
    assert example.query == "red red red" and prompts.requests[0].left == "a rose a leaf\nred red red"


def test_a_written_text_gets_a_further_input(colours):
    fields = {"id": "row.id", "inputs": {"colour": "row.q", "outline": "row.o"}, "references": "[row.o[0]]"}
    colours.write("g", type="generation", fields=fields | {"meta": {"kind": "row.k"}}, baselines=[], metrics=["length"])
    colours.workshop.backend = FakeGenerator()
    colours.workshop.run("g", harness=colours.harness(), augment={**NEIGHBOURS, "add": "outline", "k": 1})
    prompts = [prompt.messages[-1].content for prompt in colours.workshop.backend.asked]
    assert prompts[0].startswith("Retrieved: a rose, nothing\nColour: red red red\n")


# ---- solved examples -------------------------------------------------------------------------------------------------


def test_solved_examples_may_be_the_nearest_the_most_similar_last(colours):
    colours.write(augment={"retriever": "colours", "add": "none"})
    colours.workshop.backend = FakeGenerator()
    task = colours.run(num_fewshot=2, fewshot_sampler="nearest")
    messages = colours.workshop.backend.asked[0].messages
    assert [turn.content for turn in messages if turn.role == "assistant"] == [" A", " A"]
    assert "green green" in messages[0].content and "red green" in messages[2].content
    assert task.settings["fewshot_sampler"]["sampler"] == "nearest"


@pytest.mark.parametrize("settings", [{}, {"num_fewshot": 1, "shots": "shared"}])
def test_the_nearest_ones_are_each_questions_own(colours, settings):
    colours.workshop.backend = FakeGenerator()
    with pytest.raises(TaskError, match="--fewshot_sampler nearest chooses examples for each question"):
        colours.run(fewshot_sampler="nearest", **settings)


# ---- who is near -----------------------------------------------------------------------------------------------------

queries = st.lists(st.sampled_from(COLOURS), min_size=1, max_size=3).map(" ".join)
examples = st.lists(st.tuples(queries, st.sampled_from([None, "a", "b"])), min_size=1, max_size=8)


def as_examples(drawn, prefix):
    return [
        ChoiceExample(id=f"{prefix}{n}", query=query, options=("x", "y"), gold=0, cluster=cluster)
        for n, (query, cluster) in enumerate(drawn)
    ]


def is_apart(candidate, question):
    """Whether an example neither asks what the question asks nor has its cluster."""
    return (
        candidate.id != question.id
        and letters(candidate.query) != letters(question.query)
        and (candidate.cluster is None or candidate.cluster != question.cluster)
    )


@given(drawn=examples, questions=examples)
def test_no_neighbour_gives_the_answer_away(tmp_path_factory, drawn, questions):
    manager = plugins.load(modules=[])
    retriever = Retriever("colours", Harness(manager))
    retriever.__dict__["vectors"] = lambda texts, _note="": np.array([colour_vector(text) for text in texts])
    pool = as_examples(drawn, "t")
    neighbours = NearestExamples(Choice(), partial(iter, pool), retriever, 1, "--augment k=1")
    for question in (*as_examples(questions, "q"), *pool):
        try:
            (neighbour,) = neighbours.of(question)
        except TaskError:
            neighbour = None
        allowed = [candidate for candidate in pool if is_apart(candidate, question)]
        assert (neighbour in allowed) if allowed else neighbour is None

    for shot in pool:  # what is added to a solved example gives away neither its answer nor that of the question
        for question in as_examples(questions, "q"):
            allowed = [candidate for candidate in pool if is_apart(candidate, shot)]
            try:
                (neighbour,) = neighbours.of(shot, question)
            except TaskError:
                neighbour = None
            if neighbour is not None:
                assert neighbour in allowed and is_apart(neighbour, question)
            else:
                assert not any(is_apart(candidate, question) for candidate in allowed)


@pytest.mark.parametrize("sampler", ["random", "nearest"])
def test_nothing_added_to_a_solved_example_answers_the_question(colours, sampler):
    colours.workshop.backend = FakeGenerator()
    colours.run(augment=NEIGHBOURS, num_fewshot=1, fewshot_sampler=sampler, limit=1)
    (request,) = colours.workshop.backend.asked
    shown = "\n".join(turn.content for turn in request.messages)
    assert "a leaf" in shown  # was retrieved
    assert not any(answer in shown.partition("nothing")[0] for answer in ("an apple", "a fire"))  # of its own cluster


# ---- the index on disk -----------------------------------------------------------------------------------------------


def test_the_index_is_computed_once(colours, own_home):
    colours.run(augment=NEIGHBOURS)
    assert len(colours.retriever.asked) == len(TRAIN) + len(TEST)
    colours.run(augment=NEIGHBOURS, fresh=True)
    assert len(colours.retriever.asked) == len(TRAIN) + len(TEST)
    assert sorted(file.suffix for file in (own_home / "indexes").iterdir()) == [".f32", ".f32"]


def seal_vectors(file, numbers):
    """FakeEncoder as they stand in a file of this name, the digest included."""
    content = np.asarray(numbers, dtype="<f4").tobytes()
    return content + sha256(file.name.encode() + b"\0" + content).digest()


HOSTILE_FILES = {
    "empty": lambda file, right: b"",
    "no array": lambda file, right: b"text",
    "pickled": lambda file, right: pickle.dumps(right),
    "an array of numpy": lambda file, right: save_vectors(np.save, right),
    "an archive": lambda file, right: save_vectors(np.savez, right),
    "an archive that is none": lambda file, right: b"PK\x03\x04 and more",
    "cut": lambda file, right: file.read_bytes()[:-5],
    "longer": lambda file, right: file.read_bytes() + b"more",
    "a sign flipped": lambda file, right: flip_bit(file.read_bytes(), 3, 0x80),
    "the last bit flipped": lambda file, right: flip_bit(file.read_bytes(), 0, 1),
    "those of other texts": lambda file, right: seal_vectors(file.with_stem("another"), right),
    "in another order": lambda file, right: right[::-1].tobytes() + file.read_bytes()[-32:],
    "another length": lambda file, right: seal_vectors(file, np.ones((5, 1))),
    "not of length one": lambda file, right: seal_vectors(file, np.ones((2, 3))),
    "no numbers": lambda file, right: seal_vectors(file, np.full((2, 3), np.nan)),
    "another type": lambda file, right: seal_vectors(
        file, right.astype(np.float16).astype(np.float64).repeat(2, axis=0)
    ),
    "no vectors": lambda file, right: seal_vectors(file, []),
}


def save_vectors(save, vectors):
    stream = BytesIO()
    save(stream, vectors)
    return stream.getvalue()


def flip_bit(content, index, bit):
    return content[:index] + bytes([content[index] ^ bit]) + content[index + 1 :]


@pytest.mark.parametrize("form", HOSTILE_FILES)
def test_a_file_that_is_no_index_is_computed_again(colours, own_home, form):
    """Also one whose vectors have length one and are others, which nothing but its digest tells."""
    retriever = Retriever("colours", colours.harness())
    right = retriever.vectors(["red", "blue"])
    (file,) = (own_home / "indexes").iterdir()
    good = file.read_bytes()
    file.write_bytes(HOSTILE_FILES[form](file, right))
    assert (retriever.vectors(["red", "blue"]) == right).all()
    assert len(colours.retriever.asked) == 4
    assert file.read_bytes() == good


def test_a_folder_in_the_place_of_an_index_is_named(colours, own_home):
    retriever = Retriever("colours", colours.harness())
    retriever.vectors(["red"])
    (file,) = (own_home / "indexes").iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(DataError, match=r"cannot write .*\.f32 \(Is a directory\); remove that folder"):
        retriever.vectors(["red"])


def test_a_link_in_the_place_of_an_index_is_replaced(colours, own_home, tmp_path):
    retriever = Retriever("colours", colours.harness())
    retriever.vectors(["red", "blue"])
    (file,) = (own_home / "indexes").iterdir()
    elsewhere = tmp_path / "elsewhere.f32"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    retriever.vectors(["red", "blue"])
    assert not file.is_symlink()


def test_many_texts_are_announced_and_kept_batch_by_batch(colours, own_home, capsys):
    texts = [f"red {n}" for n in range(2 * BATCH + 1)]
    healthy = colours.retriever.function
    colours.retriever.function = lambda text: healthy(text) if text != texts[-1] else stop()
    with pytest.raises(KeyboardInterrupt):
        Retriever("colours", colours.harness()).vectors(texts, "training examples")
    assert capsys.readouterr().err == f"indexing {len(texts)} training examples with colours (once)\n"

    colours.retriever.function, before = healthy, len(colours.retriever.asked)
    vectors = Retriever("colours", colours.harness()).vectors(texts)
    assert len(colours.retriever.asked) == before + 1
    assert vectors.shape == (len(texts), 3) and vectors[0] == pytest.approx(np.array([6, 1, 1]) / 38**0.5)
    assert len(list((own_home / "indexes").iterdir())) == 1  # the parts are gone
    assert (Retriever("colours", colours.harness()).vectors(texts) == vectors).all()
    assert len(colours.retriever.asked) == before + 1


def stop():
    raise KeyboardInterrupt


def test_how_far_a_slow_index_is(colours, own_home, capsys, monkeypatch):
    seconds = iter(range(0, 10_000, 7))
    monkeypatch.setattr("figeval.runs.retrieval.neighbours.time.monotonic", lambda: next(seconds))
    texts = [f"red {n}" for n in range(3 * BATCH)]
    Retriever("colours", colours.harness()).vectors(texts, "questions")
    _, *lines = capsys.readouterr().err.splitlines()
    assert lines == [f"indexing: {2 * BATCH} of {3 * BATCH} questions after 14 s"]


def test_where_nothing_can_be_written(colours, own_home):
    own_home.write_text("a file")
    with pytest.raises(DataError, match="set FIGEVAL_HOME to a writable folder"):
        Retriever("colours", colours.harness()).vectors(["red"])


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k": 9}, TaskError, "--augment k=9 cannot be met for 'q1': only 3 training examples"),
        ({"from": "dev"}, TaskError, "t has no dev split to retrieve from"),
        ({"from": "test"}, TaskError, "would reveal the answers to be predicted"),
        ({"retriever": "words"}, CapabilityError, "the retriever words cannot embed texts"),
        ({"add": "outline"}, TaskError, "t has no outlines to add"),
    ],
)
def test_errors_name_what_to_change(colours, changes, error, message):
    with pytest.raises(error, match=message):
        colours.run(augment={**NEIGHBOURS, **changes})


@pytest.mark.slow
def test_a_retriever_that_would_need_an_option(colours, tmp_path):
    raw = Tiny(tmp_path / "models")("bert", "Model")
    harness = colours.workshop.harness("encoders")
    with pytest.raises(ModelError, match="declares no pooling, and a retriever takes no options; use minilm") as e:
        colours.workshop.run(harness=harness, augment={**NEIGHBOURS, "retriever": str(raw)})
    assert "--model_args" not in str(e.value) and "\n" not in str(e.value)


def test_a_task_type_that_cannot_take_it(colours):
    fields = {"id": "row.id", "text": "row.q", "given": "row.q", "known": "row.q", "gold": "row.q"}
    colours.write("s", type="spans", fields=fields, cluster=None, baselines=[], metrics=["exact_match"])
    colours.workshop.backend = FakeGenerator()
    with pytest.raises(TaskError, match="spans tasks point into their texts"):
        colours.workshop.run("s", harness=colours.harness(), augment=NEIGHBOURS)


def test_a_template_that_does_not_show_it(colours):
    (colours.workshop.folder / "w.jinja").write_text("{% block write %}{{ inputs.colour }}{% endblock %}")
    fields = {"id": "row.id", "inputs": {"colour": "row.q"}, "references": "[row.o[0]]", "meta": {"kind": "row.k"}}
    keys = {"type": "generation", "fields": fields, "baselines": [], "metrics": ["length"], "template": "w.jinja"}
    colours.write("g", **keys)
    colours.workshop.backend = FakeGenerator()
    with pytest.raises(TaskError, match="does not show what --augment adds"):
        colours.workshop.run("g", harness=colours.harness(), augment=NEIGHBOURS)


# ---- content words ---------------------------------------------------------------------------------------------------


def test_content_words_of_english(monkeypatch):
    from figeval.language import nltk_data, spacy_pipeline
    from figeval.language.tagging import PACKAGES

    monkeypatch.setenv(spacy_pipeline.VARIABLE, "")
    if not nltk_data.has(PACKAGES):
        pytest.skip("no NLTK data")
    (words,) = content_words("en").of(
        ["The greedy dogs were slowly losing all the bones that Mary had given to the dogs."]
    )
    assert words == ("greedy", "dog", "slowly", "lose", "bone", "give", "dog")


def test_a_language_without_content_words():
    with pytest.raises(TaskError, match="supported in en and zh, not in 'de'"):
        content_words("de")


@pytest.mark.slow
def test_a_real_encoder_finds_what_means_the_same(own_home):
    pool = as_examples([("The hungry cat chased a mouse.", None), ("Shares fell on Monday.", None)], "t")
    neighbours = NearestExamples(Choice(), partial(iter, pool), Retriever("minilm", Harness()), 1, "--augment k=1")
    (question,) = as_examples([("A kitten ran after the rat.", None)], "q")
    assert [neighbour.id for neighbour in neighbours.of(question)] == ["t0"]


# ---- flags -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag_text", "message"),
    [
        ("k=5", "it does not say what to add; write add=concepts, neighbours or outline"),
        ("add=words", "must be 'concepts', 'neighbours', 'outline' or 'none'"),
        ("add=concepts,k=0", "k must be greater than"),
        ("add=concepts,retreiver=x", "unknown key 'retreiver'"),
        ("concepts", "'concepts' is not key=value"),
    ],
)
def test_a_wrong_flag_is_refused_in_one_line(flag_text, message):
    with pytest.raises(click.BadParameter) as refused:
        augmented(click.Context(click.Command("run")), click.Option(["--augment"]), flag_text)
    assert message in refused.value.message and "\n" not in refused.value.message


def test_a_flag_has_all_keys():
    read = augmented(click.Context(click.Command("run")), click.Option(["--augment"]), "add=none")
    assert read == {"add": "none", "retriever": "minilm", "from": "train", "k": 10}
