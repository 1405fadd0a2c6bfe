"""`figeval build storal`: golden cases, properties of the items, and the frozen items of the built-in English tasks."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
import tracemalloc
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataContext, DataError
from figeval.builtin.tasks.storal import extras
from figeval.builtin.tasks.storal.building import antonyms, frozen, negatives, outlines, topics
from figeval.builtin.tasks.storal.building.build_storal import KINDS, storal
from figeval.builtin.tasks.storal.pairs import PairFile, draw_splits, english_pairs, wording
from figeval.cli.main import main
from figeval.data.cache import fetch
from figeval.data.row_files import read_rows
from figeval.language import word_forms

STORAL = files("figeval.builtin.tasks.storal")
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_build.json").read_text(encoding="utf-8"))
WRAPPER = re.compile(r"<extra_id_\d+>|</s>")


@pytest.fixture(scope="module", autouse=True)
def packages():
    """Skip all where the extra is not installed."""
    try:
        for module in extras.PACKAGES:
            extras.load(module)
        word_forms.open_lemminflect()
    except DataError as error:
        pytest.skip(str(error))


@pytest.fixture
def wordnet(real_data, monkeypatch):
    """NLTK with a WordNet, which lies in a root of its own."""
    import nltk

    root = f"{real_data}/oewn/nltk_root"
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, root])
    monkeypatch.setenv("NLTK_DATA", root)
    try:
        nltk.data.find("corpora/wordnet.zip")
    except LookupError:
        pytest.skip("no WordNet: add oewn/nltk_root to the mirror")


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """`call("--pairs", …)` → exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def build(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["build", "storal", *map(str, arguments)])
        read = capsys.readouterr()
        return ended.value.code, read.out, read.err

    return build


def context():
    return DataContext(STORAL, fetch)


# ---- beginnings and outlines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["beginnings"], ids=lambda case: case["why"])
def test_beginnings(case):
    end, start = outlines.beginning(case["text"], case["language"])
    assert (case["text"][:end], case["text"][start:]) == (case["beginning"], case["rest"])


@pytest.mark.parametrize("case", GOLDEN["outlines"], ids=lambda case: case["why"])
def test_outlines(case):
    outline = outlines.outline(case["text"], "en")
    assert [case["text"][start:end].lower() for start, end in outline] == case["phrases"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_published_rows(real_data, language):
    """All 30 beginnings, the phrases of all 15 English outlines, and most Chinese phrases are candidates."""
    rows = list(published_rows(language))
    assert len(rows) == 15
    for story, (_, beginning, *phrases), rest in rows:
        end, start = outlines.beginning(story, language)
        assert story[:end].strip() == beginning
        if language == "en":
            assert story[start:].strip() == rest
            assert {story[left:right].lower() for left, right in outlines.outline(story, "en")} == set(phrases)


def published_rows(language):
    for split in ("train", "val", "test"):
        source, target, stories = (
            fetch("storal", f"examples/generation/t5/{kind}_data_{language}/{split}.{end}").read_text().splitlines()
            for kind, end in (("mo2st", "source"), ("mo2st", "target"), ("st2mo", "source"))
        )
        for line, written, story in zip(source, target, stories, strict=True):
            yield story.strip(), [part.strip() for part in line.split("#")], WRAPPER.sub("", written).strip()


texts = st.text(alphabet="ab *+?[](){}^$\\|.,:!\"' -\n\t\u00a0İß1é", max_size=200)


@given(texts)
def test_any_text_has_a_beginning_and_an_outline_within_its_rest(text):
    end, start = outlines.beginning(text, "en")
    assert 0 <= end <= start <= len(text)
    outline = outlines.outline(text, "en", ("a",))
    assert len(outline) <= 8
    for left, right in outline:
        assert start <= left < right <= len(text)
        assert text[left:right] == text[left:right].strip() != ""


def test_a_phrase_that_takes_exponential_time_as_a_pattern_is_searched_for_as_a_text():
    quantifiers = "_*" * 30 + "yeti"
    text = f"Once upon a time there was a crow, a yeti, {quantifiers} here, and {'_' * 120} zebra. " + "the crow " * 200
    assert quantifiers in [text[start:end] for start, end in outlines.outline(text, "en")]


# ---- antonyms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["antonyms"], ids=lambda case: case["why"])
def test_antonyms(wordnet, case):
    replaced = {
        (case["moral"][replacement.start : replacement.end], replacement.apply(case["moral"]))
        for word in antonyms.WordNetAntonyms().replacements(case["moral"])
        for replacement in word
    }
    if case["replaced"] is None:
        assert not {replaced for word, replaced in replaced if word == case["word"]}
    else:
        assert (case["word"], case["replaced"]) in replaced


def test_stop_words_are_replaced_only_where_no_other_word_has_an_antonym(wordnet):
    source = antonyms.WordNetAntonyms()
    drawn = {
        antonyms.draw_replacement("Go in, wise one.", source, str(seed)).apply("Go in, wise one.") for seed in range(20)
    }
    assert drawn == {"Go in, foolish one."}
    assert not isinstance(antonyms.draw_replacement("Come in.", source, "0"), antonyms.Dropped)


def test_morals_without_an_antonym_say_why(wordnet):
    source = antonyms.WordNetAntonyms()
    assert antonyms.draw_replacement("42 — 43", source, "0") == antonyms.NO_WORDS
    assert antonyms.draw_replacement("Zebras eat grass.", source, "0") == antonyms.NO_ANTONYM


def test_antonyms_of_a_list(tmp_path):
    file = tmp_path / "antonyms.tsv"
    file.write_text("诚实\t虚伪\n\ngut\tschlecht\n", encoding="utf-8")
    chinese = antonyms.draw_replacement("做人要诚实。", antonyms.read_antonyms(file, "zh"), "0")
    german = antonyms.draw_replacement("Ende Gut, alles klar", antonyms.read_antonyms(file, "de"), "0")
    assert (chinese.apply("做人要诚实。"), german.apply("Ende Gut, alles klar")) == (
        "做人要虚伪。",
        "Ende Schlecht, alles klar",
    )


# ---- topics and negatives --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_topics_is_the_smallest_specific_one():
    words = [
        [f"{kind}{number}" for number in range(40)] for kind in ("fox", "crow", "lion", "wolf", "goat", "frog", "hare")
    ]
    generator = random.Random(0)
    morals = [" ".join(generator.sample(words[number % len(words)], 6)) for number in range(300)]
    plain = [re.sub(r"\d", lambda digit: "abcdefghij"[int(digit.group())], moral) for moral in morals]
    learned = topics.learn(plain, "en", 0)
    assert learned.by_rule and min(learned.specificity) > 0.5
    assert learned.count >= 8
    fewer = [topics.learn(plain, "en", 0, count=number) for number in range(8, learned.count)]
    assert all(min(other.specificity) <= 0.5 for other in fewer)
    again = topics.learn(plain, "en", 0, count=learned.count)
    assert again.specificity == learned.specificity
    assert again.of(plain).tolist() == learned.of(plain).tolist()
    assert max(Counter(learned.of(plain[::7] * 3).tolist()).values()) <= 22  # a sixth of 129 morals


def test_too_few_morals_for_topics_are_refused():
    with pytest.raises(DataError, match=r"fewer stories \(3\) than --topics 24"):
        topics.learn(["the wise fox", "the wise crow", "a wise lion"], "en", 0, count=24)
    with pytest.raises(DataError, match="no content words in common"):
        topics.learn(["fox", "crow", "lion"], "en", 0, count=2)


@pytest.mark.slow
@given(st.integers(30, 60), st.integers(6, 20), st.integers(0, 10**6))
def test_negatives_are_balanced_and_of_other_topics(n, k, seed):
    generator = random.Random(seed)
    morals = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz ", k=40)) for _ in range(n - 2)]
    morals += [morals[0], f"{morals[1].upper()}!"]
    of_topics = np.array([generator.randrange(k) for _ in range(n)])
    items = negatives.choose(morals, of_topics, str(seed))
    assert max(Counter(items.gold).values()) - min(Counter(items.gold)[position] for position in range(5)) <= 1
    for index, (options, gold) in enumerate(zip(items.options, items.gold, strict=True)):
        assert options[gold] == index
        assert len({negatives.normalize(morals[option]) for option in options}) == 5
        if items.rules[0] < 2:
            wrong_options = [option for option in options if option != index]
            assert all(of_topics[other] != of_topics[index] for other in wrong_options)
        if items.rules[0] == 0:
            assert len({of_topics[option] for option in options}) == 5
    if items.rules[0] < 3:
        assert set(Counter(option for options in items.options for option in options).values()) == {5}
    assert items == negatives.choose(morals, of_topics, str(seed))


def test_a_split_with_too_few_different_morals_is_refused():
    with pytest.raises(DataError, match="has only 2 others in its split"):
        negatives.choose(["Be wise.", "be WISE", "Trust nobody.", "Slow wins."], np.arange(4), "0")


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), min_size=1, max_size=60), st.integers())
def test_equal_stories_come_into_one_split(stories, seed):
    drawn = draw_splits(stories, "en", seed)
    assert len({*zip(stories, drawn, strict=True)}) == len({*stories})


@pytest.mark.parametrize(("language", "sizes"), [("en", [1068, 355, 356]), ("zh", [3368, 420, 421])])
def test_splits_are_drawn_in_the_papers_proportions(language, sizes):
    drawn = Counter(draw_splits([str(number).encode() for number in range(sum(sizes))], language, 7))
    assert [drawn["train"], drawn["valid"], drawn["test"]] == sizes


# ---- the frozen items ------------------------------------------------------------------------------------------------


def test_frozen_items_hold_no_text():
    record = json.loads((STORAL / "items" / "items.json").read_text(encoding="utf-8"))
    for name, written in record["files"].items():
        text = (STORAL / "items" / name).read_bytes()
        assert (len(text.splitlines()), hashlib.sha256(text).hexdigest()) == (written["items"], written["sha256"])
        for item in map(json.loads, text.decode().splitlines()):
            versions = [item.pop(kind) for kind in ("synonym", "antonym") if kind in item]
            assert set(item) <= {
                *("id", "options", "gold", "topics", "place", "word", "beginning", "rest", "outline", "order")
            }
            assert all(set(version) == {"place", "word"} for version in versions)
            assert all(len(version.get("word", "").split()) <= 2 for version in (item, *versions))


def test_frozen_items_fit_the_pairs(real_data):
    pairs = {pair.id: pair for pair in english_pairs(context())}
    for item in read_rows(STORAL / "items" / "mocpt_en.jsonl"):
        assert item["options"][item["gold"]] == item["id"]
        assert len({negatives.normalize(pairs[option].moral) for option in item["options"]}) == 5
        assert {pairs[option].split for option in item["options"]} == {pairs[item["id"]].split}
    for item in read_rows(STORAL / "items" / "mopref_en.jsonl"):
        start, end = item["place"]
        assert pairs[item["id"]].moral[start:end].lower() != item["word"].lower()
    for item in read_rows(STORAL / "items" / "mo2st_en.jsonl"):
        story = pairs[item["id"]].story
        assert outlines.beginning(story, "en") == (item["beginning"], item["rest"])
        assert all(item["rest"] <= start < end <= len(story) for start, end in item["outline"])


@pytest.mark.slow
def test_frozen_items_are_made_again(wordnet, real_data):
    record = json.loads((STORAL / "items" / "items.json").read_text(encoding="utf-8"))
    _, again = frozen.frozen_items(list(english_pairs(context())))
    if again["packages"] != record["packages"]:
        pytest.skip("other versions of packages may draw other items")
    assert again == record


# ---- the command -----------------------------------------------------------------------------------------------------

ANIMALS = ["fox", "crow", "lion", "mouse", "wolf", "goat", "frog", "hare"]
VIRTUES = ["wise", "honest", "happy", "strong", "good", "rich", "brave", "kind"]
PLACES = ["river", "forest", "village", "mountain", "meadow", "castle", "garden", "harbour"]


def stories(n=60, *, split=None):
    for number in range(n):
        animal, virtue, location = ANIMALS[number % 8], VIRTUES[number // 8 % 8], PLACES[number // 3 % 8]
        story = (
            f"Once upon a time a {animal} number {number} lived beside a quiet {location}, all alone. "
            f"A hungry neighbour begged for bread near the {location} bridge. The {animal} shared all and was {virtue}."
        )
        row = {"story": story, "moral": f"Every {virtue} {animal} near the {location} finds {number} friends, at last."}
        yield row if split is None else {**row, "split": split(number)}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_build_runs_at_once_and_again_is_the_same(call, wordnet, tmp_path, capsys):
    source = write_rows(tmp_path / "fables.jsonl", stories())
    code, out, err = call("--pairs", source, "--output", "one", "--name", "Fables", "--topics", 8)
    assert code == 0, err
    assert "mocpt: 36 train, 12 valid, 12 test" in out
    with pytest.raises(SystemExit) as ended:
        main(["validate", "--include_path", "one"])
    assert (ended.value.code, "4 tasks, 0 errors" in capsys.readouterr().out) == (0, True)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "run",
                "--include_path",
                "one",
                "--tasks",
                "fables_st2mo,fables_mo2st",
                "--model",
                "echo",
                "--output_path",
                "run",
            ]
        )
    assert ended.value.code == 0, capsys.readouterr().err
    code, _, err = call("--pairs", source, "--output", "one", "--name", "fables", "--topics", 8)
    assert (code, err.count("kept from an earlier session")) == (0, 5)
    call("--pairs", source, "--output", "two", "--name", "fables", "--topics", 8)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    call("--pairs", source, "--output", "two", "--name", "fables", "--topics", 8, "--seed", 1)
    assert contents(tmp_path / "one") != contents(tmp_path / "two")


@pytest.mark.slow
def test_a_folder_holds_one_build(call, wordnet, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", stories())
    call("--pairs", source, "--output", "out", "--tasks", "st2mo,mopref")
    code, _, err = call("--pairs", source, "--output", "out", "--tasks", "st2mo", "--seed", 3)
    assert code == 2
    assert "out has mopref made from other pairs or with another seed" in err.splitlines()[-1]
    code, _, err = call("--pairs", source, "--output", "out", "--tasks", "st2mo,mopref", "--seed", 3)
    assert code == 0, err


@pytest.mark.parametrize("content", ["[]", '{"st2mo": 5}', '{"st2mo": {"key": "a"}}', "{"])
def test_a_damaged_record_of_stages_is_one_line(call, wordnet, tmp_path, content):
    source = write_rows(tmp_path / "in.jsonl", stories(9))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "stages.json").write_text(content)
    code, _, err = call("--pairs", source, "--output", "out", "--tasks", "st2mo")
    assert code == 2 and "delete it" in err.splitlines()[-1]


def test_ids_may_be_numbers_from_0(call, wordnet, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", [{**row, "id": number} for number, row in enumerate(stories(9))])
    code, _, err = call("--pairs", source, "--output", "my tasks", "--tasks", "st2mo", "--name", "mine")
    assert code == 0, err
    ids = [
        row["id"]
        for split in ("train", "valid", "test")
        for row in read_rows(tmp_path / "my tasks" / f"st2mo_{split}.jsonl")
    ]
    assert sorted(ids, key=int) == [str(number) for number in range(9)]


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.slow
def test_rows_of_a_build(call, wordnet, tmp_path):
    rows = list(stories(split=lambda number: ("train", "train", "dev", "test")[number % 4]))
    by_id = {str(number): row for number, row in enumerate(rows, 1)}
    call("--pairs", write_rows(tmp_path / "in.jsonl", rows), "--output", "out", "--topics", 8)
    for row in read_rows(tmp_path / "out" / "mocpt_test.jsonl"):
        assert row["options"][row["gold"]] == by_id[row["id"]]["moral"]
        assert all(by_id[option]["split"] == "test" for option in row["option_ids"])
    for row in read_rows(tmp_path / "out" / "mopref_test.jsonl"):
        right, wrong = row["options"][row["gold"]], row["options"][1 - row["gold"]]
        assert right == by_id[row["id"]]["moral"] != wrong
        assert wrong == right.replace(row["replaced"], row["by"], 1)
    for row in read_rows(tmp_path / "out" / "mo2st_test.jsonl"):
        story = by_id[row["id"]]["story"]
        assert story == f"{row['beginning']} {row['story']}"
        assert row["outline"] and all(phrase in row["story"].lower() for phrase in row["outline"])
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["sizes"]["st2mo"] == {"train": 30, "valid": 15, "test": 15}
    assert report["ambiguous"]["tfidf"]["items"] == 15
    assert {*report["rules"]} == {"mocpt", "mopref"}


@pytest.mark.slow
def test_stages_of_a_stopped_build_are_kept(call, wordnet, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", stories())
    call("--pairs", source, "--output", "out", "--tasks", "st2mo,mopref")
    _, _, err = call("--pairs", source, "--output", "out", "--topics", 8)
    assert "st2mo: kept" in err and "mopref: kept" in err and "mo2st: kept" not in err
    (tmp_path / "out" / "st2mo_test.jsonl").write_text("edited\n")
    _, _, err = call("--pairs", source, "--output", "out", "--topics", 8)
    assert "st2mo: kept" not in err and "mo2st: kept" in err


def test_duplicates_are_counted_and_removed(call, tmp_path):
    rows = list(stories(20, split=lambda number: "test" if number % 4 == 3 else "train"))
    rows.append({**rows[3], "story": rows[3]["story"].upper(), "split": "train", "moral": "Be wise."})
    source = write_rows(tmp_path / "in.jsonl", rows)
    other = write_rows(tmp_path / "other.jsonl", list(stories(5)))
    call("--pairs", source, "--output", "out", "--tasks", "st2mo", "--deduplicate", "--compare", other)
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["duplicates"]["stories"] == {"repeated": 1, "pairs": 2, "across_splits": 1}
    assert report["duplicates"]["removed"] == ["21"]
    assert report["overlap"] == {"other.jsonl": {"pairs": 5, "stories": 6, "morals": 5}}
    assert report["sizes"]["st2mo"] == {"train": 15, "test": 5}


def test_texts_are_the_same_that_have_the_same_wording(call, tmp_path):
    """In the clusters of the rows and in the figures of the report, as in the built-in tasks."""
    rows = list(stories(8, split=lambda _: "train"))
    for number, moral in enumerate(("Every one is wise!", "Everyone is wise.4", "every-one IS wise")):
        rows[number] |= {"moral": moral}
    rows[7] |= {"story": rows[6]["story"].replace(" ", "12 ", 1)}
    source = write_rows(tmp_path / "in.jsonl", rows)
    call("--pairs", source, "--output", "out", "--tasks", "st2mo")
    built_rows = [json.loads(line) for line in (tmp_path / "out" / "st2mo_train.jsonl").read_text("utf-8").splitlines()]
    assert len({row["moral_group"] for row in built_rows[:3]}) == 1
    assert len({row["moral_group"] for row in built_rows}) == len({wording(row["moral"]) for row in built_rows})
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["duplicates"]["morals"]["pairs"] >= 3
    assert report["duplicates"]["stories"]["repeated"] == 1


@pytest.mark.slow
def test_a_build_in_chinese_and_one_in_german(call, tmp_path, real_data):
    chinese = [
        {"story": f"从前有一只{animal}在{location}旁边住着。它每天{act}，后来遇到了一位老人。老人{act}很高兴。",
         "moral": f"{animal}要诚实{act}。"}
        for animal in ("狐狸", "乌鸦", "狮子", "老鼠", "山羊")
        for location in ("河流", "森林")
        for act in ("努力工作", "帮助朋友", "认真学习")
    ]  # fmt: skip
    listed = tmp_path / "antonyms.tsv"
    listed.write_text("诚实\t虚伪\nehrlich\tverlogen\n", encoding="utf-8")
    source = write_rows(tmp_path / "zh.jsonl", chinese)
    tasks = "mopref,st2mo,mo2st"
    code, out, err = call(
        "--pairs", source, "--output", "zh", "--language", "zh", "--antonyms", listed, "--tasks", tasks
    )
    assert (code, "mopref: 24 train, 3 valid, 3 test" in out) == (0, True), err
    rows = list(read_rows(tmp_path / "zh" / "mo2st_train.jsonl"))
    assert all(row["outline"] and row["beginning"].endswith("。") for row in rows)
    stop = tmp_path / "stop.txt"
    stop.write_text("der\ndie\nein\neine\nund\nwar\n", encoding="utf-8")
    german = [
        {"story": f"Es war einmal ein Fuchs Nummer {n}, der alleine lebte. Die alte Krähe und der junge Wolf kamen.",
         "moral": f"Nur ehrlich währt es {n} Jahre."}
        for n in range(20)
    ]  # fmt: skip
    code, _, err = call(
        *("--pairs", write_rows(tmp_path / "de.jsonl", german), "--output", "de", "--language", "de"),
        *("--antonyms", listed, "--stopwords", stop, "--tasks", tasks),
    )
    assert code == 0, err
    assert "alte krähe" in next(iter(read_rows(tmp_path / "de" / "mo2st_test.jsonl")))["outline"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stories(call, tmp_path):
    long = "word " * 10_000
    rows = ({"story": f"{number} {long}", "moral": f"moral {number}"} for number in range(400))
    source = write_rows(tmp_path / "in.jsonl", rows)
    call("--pairs", write_rows(tmp_path / "small.jsonl", stories(9)), "--output", "warm", "--tasks", "st2mo")
    tracemalloc.start()
    code, _, _ = call("--pairs", source, "--output", "out", "--tasks", "st2mo")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert code == 0
    assert peak < source.stat().st_size / 2


@pytest.mark.slow
def test_few_words_in_common_make_topics_that_say_nothing(call, tmp_path):
    """With 20 words or fewer the 20 heaviest are all of them, so every topic would be specific."""
    morals = [f"the wise {'fox' if number % 2 else 'crow'} {chr(97 + number) * 4}" for number in range(14)]
    learned = topics.learn(morals, "en", 0)
    assert (learned.by_rule, learned.vocabulary, learned.count) == (False, 3, 14)
    rows = [row | {"moral": f"The wise {'fox' if number % 2 else 'crow'} {chr(97 + number) * 4}."}
            for number, row in enumerate(stories(30))]  # fmt: skip
    rows = [row for row in rows if row["moral"]]
    code, _, err = call("--pairs", write_rows(tmp_path / "in.jsonl", rows), "--output", "out", "--tasks", "mocpt")
    assert code == 0, err
    assert "figeval: the training morals have only 3 content words that occur in two of them" in err
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "the topics mean next to nothing" in page
    assert "Smallest specificity undefined" in page


def test_without_a_test_split_the_last_one_is_run_and_said(call, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", stories(9, split=lambda _: "train"))
    code, _, err = call("--pairs", source, "--output", "out", "--tasks", "st2mo")
    assert (code, "there is no test split, so the tasks are run on the split 'train'" in err) == (0, True)
    assert "run on the split 'train'" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    task = (tmp_path / "out" / "st2mo.task.yaml").read_text(encoding="utf-8")
    assert "baselines: [echo, overlap]" in task  # `random` takes a text from the training split


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_may_have_any_delimiter(delimiter, tmp_path):
    rows = [("story", "moral"), ("A fox, once; upon a time.", 'Be "wise", friend.')]
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    (pair,) = PairFile(tmp_path / "in.csv").pairs()
    assert (pair.story, pair.moral) == rows[1]


BAD_INPUTS = {
    "no moral": ([{"story": "Once upon a time."}], (), r"in\.jsonl:1: no field 'moral'"),
    "no story": ([{"moral": "Be wise.", "storry": "Once upon."}], (), "no field 'story'; the .* did you mean 'storry'"),
    "an empty moral": ([{"story": "Once upon a time.", "moral": " … "}], (), "in.jsonl:1: 'moral' is empty"),
    "null": ([{"story": None, "moral": "Be wise."}], (), "in.jsonl:1: 'story' is empty"),
    "a number": ([{"story": 7, "moral": "Be wise."}], (), "in.jsonl:1: 'story' must be a text, not 7"),
    "a story of one word": ([{"story": "Once.", "moral": "Be wise."}], (), "in.jsonl:1: 'story' is a single word"),
    "a split of another name": (
        [{"story": "Once upon.", "moral": "Be wise.", "split": "tset"}], (), "'split' is 'tset'; it must be "
        "one of train",
    ),
    "splits on some rows": (
        [{"story": "Once upon.", "moral": "Be wise.", "split": "test"}, {"story": "Once upon.", "moral": "Be wise."}],
        (), "row 2: only some rows have a 'split'",
    ),
    "ids that are repeated": (
        [{"story": "Once upon.", "moral": "Be wise.", "id": "a"}] * 2, (), "row 2: 'id' 'a' is that of row 1, too",
    ),
    "no rows": ([], (), "it contains no pairs"),
    "fewer stories than topics": (
        list(stories(30)), ("--topics", 30), r"in\.jsonl: .*fewer stories \(18\) than --topics 30",
    ),
    "too few morals": (
        list(stories(6)), ("--topics", 2, "--tasks", "mocpt"),
        r"in\.jsonl: the split 'train' has only 4 different morals, .*leave",
    ),
    "no training split": (
        list(stories(9, split=lambda _: "test")), ("--tasks", "mocpt"), "no pair is in the split 'train'",
    ),
    "a language without antonyms": (list(stories(9)), ("--language", "zh"), "no antonyms for 'zh', .*--antonyms FILE"),
    "a language without stop words": (
        list(stories(9)), ("--language", "fr", "--tasks", "mo2st"), "no stop list for 'fr', .*--stopwords FILE",
    ),
    "no code of a language": (list(stories(9)), ("--language", "en\n x: {{"), "not a language code such as en"),
    "a language in capitals": (list(stories(9)), ("--language", "ZH"), "no antonyms for 'zh'"),
    "a task of another name": (list(stories(9)), ("--tasks", "mocept"), "no 'mocept'; did you mean 'mocpt'"),
    "columns": (list(stories(9)), ("--columns", "fable"), "write FIELD=NAME, such as story=fable"),
    "a name without letters": (list(stories(9)), ("--name", "123"), "give a --name that begins with a letter"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_line(call, wordnet, tmp_path, case):
    rows, options, message = BAD_INPUTS[case]
    code, _, err = call("--pairs", write_rows(tmp_path / "in.jsonl", rows), "--output", "out", *options)
    last = err.splitlines()[-1]
    assert (code, sum(line.startswith("figeval: ") for line in err.splitlines())) == (2, 1)
    assert re.search(message, last)


def test_nothing_has_an_antonym(call, tmp_path):
    listed = tmp_path / "antonyms.tsv"
    listed.write_text("zebra\tlion\n")
    source = write_rows(tmp_path / "in.jsonl", [{"story": "Once upon a time.", "moral": "Be wise."}])
    _, _, err = call("--pairs", source, "--output", "out", "--tasks", "mopref", "--antonyms", listed)
    assert "no word of any moral has an antonym" in err.splitlines()[-1]
    listed.write_text("zebra\n")
    _, _, err = call("--pairs", source, "--output", "out", "--tasks", "mopref", "--antonyms", listed)
    assert re.search(r"antonyms\.tsv:1: a line must have a word, a tab and its antonym", err)


def test_a_missing_package_is_one_line(call, tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    extras.load.cache_clear()
    source = write_rows(tmp_path / "in.jsonl", stories(9))
    _, _, err = call("--pairs", source, "--output", "out")
    extras.load.cache_clear()
    assert "jieba is not installed; run pip install 'figeval[storal]'" in err


def test_tables_with_columns_of_other_names(tmp_path):
    file = tmp_path / "in.csv"
    file.write_text('lesson,fable\nBe wise.,"Once, upon a time."\n', encoding="utf-8")
    (pair,) = PairFile(file, "en", {"story": "fable", "moral": "lesson"}).pairs()
    assert (pair.id, pair.story, pair.moral, pair.split) == ("1", "Once, upon a time.", "Be wise.", "")


def test_the_tasks_of_the_paper_are_built_by_default():
    (tasks,) = [option for option in storal.params if option.name == "tasks"]
    assert tasks.default == "mocpt,mopref,st2mo,mo2st"
    assert [kind for kind in KINDS if kind not in tasks.default] == ["preference"]


def test_versions_of_morals_are_built_where_they_are_asked_for(call, wordnet, tmp_path, capsys):
    rows = list(stories(split=lambda number: ("train", "train", "dev", "test")[number % 4]))
    source = write_rows(tmp_path / "in.jsonl", rows)
    code, _, err = call("--pairs", source, "--output", "own", "--tasks", "preference,st2mo")
    assert code == 0, err
    by_id = {str(number): row for number, row in enumerate(rows, 1)}
    built_rows = [
        row for split in ("train", "valid", "test") for row in read_rows(tmp_path / "own" / f"preference_{split}.jsonl")
    ]
    report = json.loads((tmp_path / "own" / "report.json").read_text(encoding="utf-8"))
    assert len(built_rows) == sum(report["sizes"]["preference"].values())
    assert len(built_rows) + sum(sum(notes.values()) for notes in report["preference"].values()) == 60
    for row in built_rows:
        assert row["options"][row["gold"]] == by_id[row["id"]]["moral"]
        assert row["versions"][row["gold"]] == {"version": "moral"}
    run = ["run", "--include_path", "own", "--tasks", "own_preference", "--model", "overlap", "--output_path", "run"]
    with pytest.raises(SystemExit, match="0"):
        main(run)
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", "run"])
    assert "own_preference@no_query" in capsys.readouterr().out
    code, _, err = call("--pairs", source, "--output", "de", "--tasks", "preference", "--language", "de")
    assert (code, err.count("\n")) == (2, 1)
    assert "there are no synonyms for 'de', which preference needs; leave preference out of --tasks" in err
