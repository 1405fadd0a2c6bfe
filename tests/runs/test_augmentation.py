"""Retrieval: what the nearest training examples hold is added to the input, or shown as solved examples."""

from __future__ import annotations

import json
import pickle
import time
from functools import partial
from hashlib import sha256
from io import BytesIO

import nltk
import numpy as np
import pytest
import yaml

from figeval import CapabilityError, DataError, ModelError, RunConfig, TaskError, compare, load
from figeval.testing.fakes import FakeEncoder, FakeGenerator, FakePairScorer
from tests.finished_runs import execute
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
        execute(config, colours.harness())
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
    done = colours.workshop.load()
    _, probe, *_ = done.record.tasks
    assert probe.variant == "no_query" and "augment" not in probe.settings
    assert [note for note in done.notes() if "augmented" in note] == [
        "augmented: the 2 nearest training examples (colours)"
    ]


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
    assert [file.suffix for file in files_of_indexes(own_home)] == [".f32", ".f32"]


def files_of_indexes(home):
    return [file for file in (home / "indexes").rglob("*") if file.is_file()]


def test_texts_of_other_lists_are_not_computed_again(colours, own_home):
    colours.run(augment=NEIGHBOURS, limit=1)
    assert len(colours.retriever.asked) == len(TRAIN) + 1
    colours.write(train=[*TRAIN[::-1], row("t6", "red blue", "a plum", "g")])
    colours.run(augment=NEIGHBOURS, fresh=True)
    assert len(colours.retriever.asked) == len(TRAIN) + len(TEST) + 1
    reused = [(line["id"], line["retrieved"]) for line in colours.workshop.rows()]
    for file in files_of_indexes(own_home):
        file.unlink()
    colours.run(augment=NEIGHBOURS, fresh=True)
    assert reused == [(line["id"], line["retrieved"]) for line in colours.workshop.rows()]


HEAD = 8 + 2 * 16  # bytes of the number of texts, and of the keys of two texts


def seal_vectors(file, numbers, name=None, head=None):
    """Numbers as they stand in a file of this name, with keys and digest."""
    content = (head or file.read_bytes()[:HEAD]) + np.asarray(numbers, dtype="<f4").tobytes()
    return content + sha256((name or file.name).encode() + b"\0" + content).digest()


def swap_keys(file):
    head = file.read_bytes()[:HEAD]
    return head[:8] + head[24:] + head[8:24]


HOSTILE_FILES = {
    "empty": lambda file, right: b"",
    "no array": lambda file, right: b"text",
    "pickled": lambda file, right: pickle.dumps(right),
    "an array of numpy": lambda file, right: save_vectors(np.save, right),
    "an archive": lambda file, right: save_vectors(np.savez, right),
    "an archive that is none": lambda file, right: b"PK\x03\x04 and more",
    "cut": lambda file, right: file.read_bytes()[:-5],
    "longer": lambda file, right: file.read_bytes() + b"more",
    "a sign flipped": lambda file, right: flip_bit(file.read_bytes(), HEAD + 3, 0x80),
    "the last bit flipped": lambda file, right: flip_bit(file.read_bytes(), HEAD, 1),
    "a key changed": lambda file, right: flip_bit(file.read_bytes(), 8, 1),
    "keys in another order": lambda file, right: seal_vectors(file, right, head=swap_keys(file)),
    "many texts": lambda file, right: seal_vectors(file, right, head=b"\xff" * 8 + file.read_bytes()[8:HEAD]),
    "numbers of no texts": lambda file, right: seal_vectors(file, right, head=bytes(8)),
    "no texts": lambda file, right: seal_vectors(file, [], head=bytes(8)),
    "those of other texts": lambda file, right: seal_vectors(file, right, name="another.f32"),
    "in another order": lambda file, right: file.read_bytes()[:HEAD] + right[::-1].tobytes() + file.read_bytes()[-32:],
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


@pytest.fixture
def index(colours, own_home):
    """The index of the two questions, which a run has made."""
    colours.run(augment=NEIGHBOURS)
    (file,) = (file for file in files_of_indexes(own_home) if file.stat().st_size == HEAD + 2 * 3 * 4 + 32)
    return file


@pytest.mark.parametrize("form", HOSTILE_FILES)
def test_a_file_that_is_no_index_is_computed_again(colours, index, form):
    """Also one whose vectors have length one and are others, which nothing but its digest tells."""
    good = index.read_bytes()
    rows = colours.workshop.rows()
    index.write_bytes(HOSTILE_FILES[form](index, np.frombuffer(good[HEAD:-32], "<f4").reshape(2, 3)))
    colours.run(augment=NEIGHBOURS, fresh=True)
    assert colours.workshop.rows() == rows
    assert len(colours.retriever.asked) == len(TRAIN) + 2 * len(TEST)
    assert index.read_bytes() == good


def test_a_folder_in_the_place_of_an_index_is_named(colours, index):
    index.unlink()
    index.mkdir()
    with pytest.raises(DataError, match=r"cannot write .*\.f32 \(Is a directory\); remove that folder"):
        colours.run(augment=NEIGHBOURS, fresh=True)


def test_a_link_in_the_place_of_an_index_is_replaced(colours, index, tmp_path):
    elsewhere = tmp_path / "elsewhere.f32"
    index.rename(elsewhere)
    index.symlink_to(elsewhere)
    colours.run(augment=NEIGHBOURS, fresh=True)
    assert not index.is_symlink()


def many(n):
    return [row(f"t{number}", f"red {number}", f"answer {number}", f"k{number}") for number in range(n)]


def test_many_texts_are_announced_and_kept_batch_by_batch(colours, own_home, capsys):
    colours.write(train=many(257))

    def breaking(text):
        if text == "red 256":
            raise KeyboardInterrupt
        return colour_vector(text)

    colours.retriever.function = breaking
    with pytest.raises(KeyboardInterrupt):
        colours.run(augment=NEIGHBOURS)
    assert "indexing 257 training examples with colours (once)\n" in capsys.readouterr().err
    colours.retriever.function, before = colour_vector, len(colours.retriever.asked)
    colours.run(augment=NEIGHBOURS)
    assert len(colours.retriever.asked) == before + 1
    assert len(files_of_indexes(own_home)) == 2  # the parts are gone


def test_how_far_a_slow_index_is(colours, own_home, capsys, monkeypatch):
    colours.write(train=many(384))
    seconds = [0.0]

    def slow(text):
        seconds[0] += 7 / 128
        return colour_vector(text)

    colours.retriever.function = slow
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    colours.run(augment=NEIGHBOURS)
    lines = [line for line in capsys.readouterr().err.splitlines() if "indexing: " in line]
    assert lines == ["indexing: 256 of 384 training examples after 14 s"]


def test_where_nothing_can_be_written(colours, own_home):
    own_home.write_text("a file")
    with pytest.raises(DataError, match="set FIGEVAL_HOME to a writable folder"):
        colours.run(augment=NEIGHBOURS)


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
def test_a_model_of_words_retrieves_with_a_pooling(colours, tmp_path):
    words = Tiny(tmp_path / "models")("bert", "ForMaskedLM")
    harness = colours.workshop.harness("encoders", "torch_models", colours=colours.retriever)

    def retrieve(**options):
        task = colours.workshop.run(
            harness=harness, augment={**NEIGHBOURS, "retriever": str(words), **options}, fresh=True
        )
        return task.tasks[0].settings["augment"]

    with pytest.raises(CapabilityError, match="add pooling=mean to --augment"):
        retrieve()
    with pytest.raises(ModelError, match="has no option 'poling'"):
        retrieve(poling="mean")
    by_mean, by_first = retrieve(pooling="mean"), retrieve(pooling="cls", max_length=32)
    assert by_mean["options"] == {"pooling": "mean"} and by_first["options"] == {"pooling": "cls", "max_length": 32}
    assert by_mean["index"] != by_first["index"]


@pytest.mark.slow
def test_a_retriever_that_needs_an_option(colours, tmp_path):
    raw = Tiny(tmp_path / "models")("bert", "Model")
    harness = colours.workshop.harness("encoders")
    with pytest.raises(ModelError, match="declares no pooling") as e:
        colours.workshop.run(harness=harness, augment={**NEIGHBOURS, "retriever": str(raw)})
    assert "--model_args" not in str(e.value) and "\n" not in str(e.value)


# ---- texts in which a retriever finds nothing ------------------------------------------------------------------------


def words_or_nothing(text, nothing=0.0):
    return colour_vector(text) if set(text.lower().split()) & set(COLOURS) else [nothing] * 3


WORDLESS_TRAIN = [*TRAIN, row("t6", "hm", "a sound", "g")]
WORDLESS_TEST = [*TEST, row("q3", "oh", "a call", "h")]


@pytest.mark.parametrize("nothing", [0.0, float("nan")])
def test_an_example_without_a_known_word_is_asked_plain_and_named(colours, nothing):
    colours.write(train=WORDLESS_TRAIN, test=WORDLESS_TEST)
    colours.retriever.function = partial(words_or_nothing, nothing=nothing)
    task = colours.run(augment=NEIGHBOURS)
    retrieved = {line["id"]: line.get("retrieved", []) for line in colours.workshop.rows()}
    assert {name: len(ids) for name, ids in retrieved.items()} == {"q1": 2, "q2": 2, "q3": 0}
    assert "t6" not in retrieved["q1"] + retrieved["q2"]
    assert "oh" in {request.left for request in colours.workshop.backend.asked}
    assert [("'q3'" in text, "'t6'" in text) for text in task.warnings if "no vector" in text] == [
        (True, False),
        (False, True),
    ]


def test_solved_examples_are_random_before_a_question_without_a_known_word(colours, capsys):
    colours.write(train=WORDLESS_TRAIN, test=WORDLESS_TEST)
    colours.retriever.function = words_or_nothing
    colours.workshop.backend = FakeGenerator()
    colours.run(fewshot_sampler="nearest", num_fewshot=1, augment={**NEIGHBOURS, "add": "none"})
    assert len(colours.workshop.rows()) == 3
    assert "'q3'" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "error"), [(0.0, "for any training example"), (float("inf"), "infinity for 'red")])
def test_a_retriever_that_finds_nothing_anywhere(colours, value, error):
    colours.retriever.function = lambda _text: [value] * 3
    with pytest.raises(DataError, match=error):
        colours.run(augment=NEIGHBOURS)


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


def test_content_words_of_english(colours, monkeypatch):
    monkeypatch.setenv("FIGEVAL_SPACY_MODEL", "")
    try:
        for package in ("tokenizers/punkt_tab", "taggers/averaged_perceptron_tagger_eng"):
            nltk.data.find(package)
    except LookupError:
        pytest.skip("no NLTK data")
    text = "The greedy dogs were slowly losing all the bones that Mary had given to the dogs."
    colours.write(train=[row("t1", "red green", text, "b")], test=TEST[:1])
    colours.run(augment={**NEIGHBOURS, "add": "concepts", "k": 1})
    (left,) = {request.left for request in colours.workshop.backend.asked}
    assert left == "greedy dog slowly lose bone give dog\nred red red"


def test_a_language_without_content_words(colours):
    colours.write(language="de")
    with pytest.raises(TaskError, match="supported in en and zh, not in 'de'"):
        colours.run(augment={**NEIGHBOURS, "add": "concepts"})


@pytest.mark.slow
def test_a_real_encoder_finds_what_means_the_same_and_preview_shows_it(colours, cli):
    train = [row("t0", "The hungry cat chased a mouse.", "a meal", "a"), row("t1", "Shares fell.", "a crash", "b")]
    colours.write(train=train, test=[row("q0", "A kitten ran after the rat.", "a hunt", "c")])
    arguments = ("--include_path", colours.workshop.folder, "--augment", "add=neighbours,k=1", "--model", "overlap")
    shown = cli("preview", "t", *arguments).out
    assert "a meal⏎" in shown.replace("\n", "⏎") and "A kitten ran after the rat." in shown


# ---- flags -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag_text", "message"),
    [
        ("k=5", "it does not say what to add; write add=concepts, neighbours or outline"),
        ("add=words", "must be 'concepts', 'neighbours', 'outline' or 'none'"),
        ("add=concepts,k=0", "k must be greater than"),
        ("add=concepts,retreiver=x", "unknown key 'retreiver'; did you mean 'retriever'"),
        ("add=concepts,poolin=mean", "has no option 'poolin'; did you mean 'pooling'"),
        ("concepts", "'concepts' is not key=value"),
    ],
)
def test_a_wrong_flag_is_refused_in_one_line(cli, flag_text, message):
    assert message in cli("run", "--tasks", "mini_pairs", "--model", "overlap", "--augment", flag_text).complaint


def test_a_flag_has_all_keys(cli):
    cli("run", "--tasks", "mini_pairs", "--model", "overlap", "--augment", "add=none", "--output_path", "out")
    assert load("out").record.config["augment"] == {"add": "none", "retriever": "minilm", "from": "train", "k": 10}
