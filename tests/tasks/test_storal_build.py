"""`figeval benchmark build storal`: golden cases, properties of the items, and the frozen items of built-in tasks."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.processes import figeval
from tests.sources import read_rows as read_source

ITEMS = Path(__file__).parents[2] / "tasks" / "storal" / "items"
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_build.json").read_text(encoding="utf-8"))
WRAPPER = re.compile(r"<extra_id_\d+>|</s>")


@pytest.fixture(scope="module", autouse=True)
def packages():
    """Skip all where the extra is not installed."""
    for package in ("jieba", "RAKE", "lemminflect"):
        pytest.importorskip(package)


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
def call(cli):
    """`call("--pairs", …)` → exit code, stdout, stderr."""

    def build(*arguments):
        outcome = cli("benchmark", "build", "storal", *arguments)
        return outcome.code, outcome.out, outcome.err

    return build


# ---- beginnings and outlines -----------------------------------------------------------------------------------------


@pytest.fixture
def outline(call, tmp_path):
    """`outline(language, stories)`: beginning, rest and phrases of each story, in their order, as a build has them."""

    def rows(language, texts):
        source = [{"story": text, "moral": f"Moral {n}.", "split": "train"} for n, text in enumerate(texts)]
        arguments = ("--language", language, "--tasks", "mo2st", "--output", language)
        code, _, err = call("--pairs", write_rows(tmp_path / f"{language}.jsonl", source), *arguments)
        assert code == 0, err
        by_id = {row["id"]: row for row in read_rows(tmp_path / language / "mo2st_train.jsonl")}
        return [by_id.get(str(number)) for number in range(1, len(source) + 1)]

    return rows


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_beginnings_and_outlines(outline, language):
    cases = [case for case in (*GOLDEN["beginnings"], *GOLDEN["outlines"]) if case.get("language", "en") == language]
    for case, row in zip(cases, outline(language, [case["text"] for case in cases]), strict=True):
        if "beginning" in case:
            stored = (row["beginning"], row["story"]) if row else (case["text"], "")
            assert stored == (case["beginning"].strip(), case["rest"].strip()), case["why"]
        else:
            assert row["outline"] == case["phrases"], case["why"]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_published_rows(real_data, outline, language):
    """All 30 beginnings, the rests and the phrases of all 15 English outlines."""
    published = list(published_rows(language, Path(real_data, "storal", "examples", "generation", "t5")))
    assert len(published) == 15
    rows = outline(language, [story for story, _, _ in published])
    for (_, (_, beginning, *phrases), rest), row in zip(published, rows, strict=True):
        assert row["beginning"].strip() == beginning
        if language == "en":
            assert (row["story"].strip(), set(row["outline"])) == (rest, set(phrases))


def published_rows(language, folder):
    for split in ("train", "val", "test"):
        source, target, stories = (
            (folder / f"{kind}_data_{language}" / f"{split}.{end}").read_text("utf-8").splitlines()
            for kind, end in (("mo2st", "source"), ("mo2st", "target"), ("st2mo", "source"))
        )
        for line, written, story in zip(source, target, stories, strict=True):
            yield story.strip(), [part.strip() for part in line.split("#")], WRAPPER.sub("", written).strip()


# ---- the frozen items ------------------------------------------------------------------------------------------------


def test_frozen_items_hold_no_text():
    record = json.loads((ITEMS / "items.json").read_text(encoding="utf-8"))
    for name, written in record["files"].items():
        text = (ITEMS / name).read_bytes()
        assert (len(text.splitlines()), hashlib.sha256(text).hexdigest()) == (written["items"], written["sha256"])
        for item in map(json.loads, text.decode().splitlines()):
            versions = [item.pop(kind) for kind in ("synonym", "antonym") if kind in item]
            assert set(item) <= {
                *("id", "options", "gold", "topics", "place", "word", "beginning", "rest", "outline", "order")
            }
            assert all(set(version) == {"place", "word"} for version in versions)
            assert all(len(version.get("word", "").split()) <= 2 for version in (item, *versions))


def test_frozen_items_fit_the_pairs(real_data):
    splits = {split: read_source(f"storal:st2mo_en_{split}") for split in ("train", "valid", "test")}
    pairs = {row["id"]: {**row, "split": split} for split, rows in splits.items() for row in rows}
    for item in read_rows(ITEMS / "mocpt_en.jsonl"):
        assert item["options"][item["gold"]] == item["id"]
        assert len({letters(pairs[option]["moral"]) for option in item["options"]}) == 5
        assert {pairs[option]["split"] for option in item["options"]} == {pairs[item["id"]]["split"]}
    for item in read_rows(ITEMS / "mopref_en.jsonl"):
        start, end = item["place"]
        assert pairs[item["id"]]["moral"][start:end].lower() != item["word"].lower()
    for item in read_rows(ITEMS / "mo2st_en.jsonl"):
        story = pairs[item["id"]]["story"]
        assert 0 < item["beginning"] <= item["rest"] <= len(story)
        assert all(item["rest"] <= start < end <= len(story) for start, end in item["outline"])


@pytest.mark.slow
def test_frozen_items_are_made_again(wordnet, cli, tmp_path):
    record = json.loads((ITEMS / "items.json").read_text(encoding="utf-8"))
    assert cli("benchmark", "build", "storal-items").code == 0
    again = json.loads((tmp_path / "items" / "items.json").read_text(encoding="utf-8"))
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
def test_a_build_runs_at_once_and_again_is_the_same(call, wordnet, tmp_path, cli):
    source = write_rows(tmp_path / "fables.jsonl", stories())
    code, out, err = call("--pairs", source, "--output", "one", "--name", "Fables", "--topics", 8)
    assert code == 0, err
    assert "mocpt: 36 train, 12 valid, 12 test" in out
    validated = cli("validate", "--include_path", "one")
    assert (validated.code, "4 tasks, 0 errors" in validated.out) == (0, True)
    tasks = ("--include_path", "one", "--tasks", "fables_st2mo,fables_mo2st")
    assert cli("run", *tasks, "--model", "echo", "--output_path", "run").code == 0
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
    morals = {letters(re.sub(r"\d+", "", row["moral"])) for row in built_rows}
    assert len({row["moral_group"] for row in built_rows}) == len(morals)
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
    rows = read_rows(tmp_path / "zh" / "mo2st_train.jsonl")
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
    rows = [row | {"moral": f"The wise {'fox' if number % 2 else 'crow'} {chr(97 + number) * 4}."}
            for number, row in enumerate(stories(30))]  # fmt: skip
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
def test_tables_may_have_any_delimiter(delimiter, call, tmp_path):
    rows = [("story", "moral"), ("A fox, once; upon a time.", 'Be "wise", friend.')]
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    code, _, err = call("--pairs", "in.csv", "--output", "out", "--tasks", "st2mo")
    assert code == 0, err
    (row,) = (row for file in (tmp_path / "out").glob("st2mo_*.jsonl") for row in read_rows(file))
    assert (row["id"], row["story"], row["moral"]) == ("1", *rows[1])


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


def test_a_missing_package_is_one_line(tmp_path, warm_start):
    (tmp_path / "jieba.py").write_text("raise ModuleNotFoundError(name='jieba')")
    write_rows(tmp_path / "in.jsonl", stories(9))
    arguments = ("benchmark", "build", "storal", "--pairs", "in.jsonl", "--output", "out")
    done = figeval(*arguments, cwd=tmp_path, code=2, PYTHONPATH=str(tmp_path))
    assert "figeval[storal]" in done.stderr


def test_tables_with_columns_of_other_names(call, tmp_path):
    (tmp_path / "in.csv").write_text('lesson,fable\nBe wise.,"Once, upon a time."\n', encoding="utf-8")
    columns = ("--columns", "story=fable,moral=lesson")
    code, _, err = call("--pairs", "in.csv", *columns, "--output", "out", "--tasks", "st2mo")
    assert code == 0, err
    (row,) = (row for file in (tmp_path / "out").glob("st2mo_*.jsonl") for row in read_rows(file))
    assert (row["story"], row["moral"]) == ("Once, upon a time.", "Be wise.")


def test_the_tasks_of_the_paper_are_built_by_default(call):
    assert "[default: mocpt,mopref,st2mo,mo2st]" in " ".join(call("--help")[1].split())


def test_versions_of_morals_are_built_where_they_are_asked_for(call, wordnet, tmp_path, cli):
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
    tasks = ("--include_path", "own", "--tasks", "own_preference")
    assert cli("run", *tasks, "--model", "overlap", "--output_path", "run").code == 0
    assert "own_preference@no_query" in cli("benchmark", "analyze", "preference", "run").out
    code, _, err = call("--pairs", source, "--output", "de", "--tasks", "preference", "--language", "de")
    assert (code, err.count("\n")) == (2, 1)
    assert "there are no synonyms for 'de', which preference needs; leave preference out of --tasks" in err
