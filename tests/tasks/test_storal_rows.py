"""STORAL: rows of the frozen items, and of a copy of the authors' archive in the forms of their repository."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import DataError, Harness
from tests.cli.conftest import Cli
from tests.processes import figeval as run_process
from tests.sources import Row, read_rows

SPLITS = ("train", "valid", "test")
MORALS = [f"Moral {number}." for number in range(5)]
ROW_COUNTS = {"train": 1068, "valid": 355, "test": 356}
PREFERENCES = {"train": 991, "valid": 343, "test": 337}
OUTLINES = {"train": 1062, "valid": 354, "test": 355}  # the beginning of eight stories is the whole story


PAPER_SIZES = {"zh": {"train": 3368, "valid": 420, "test": 421}}
PAPER_SIZES_OF_MOPREF = {"zh": {"test": 411}}
PUBLISHED_TASKS = ("mocpt", "mopref", "st2mo", "mo2st", "faithfulness")


def letters(text: str) -> str:
    """The letters and digits of a text."""
    return re.sub(r"[\W_]+", "", text.casefold())


@pytest.fixture
def examples(real_data: str) -> Path:
    """The authors' repository, whose files have five rows each."""
    return Path(real_data, "storal", "examples")


@pytest.fixture
def read_copies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Row]]:
    """`read_copies("mocpt_zh_test", folder, …)`: the published rows in these folders, or the examples among them."""

    def read(rows: str, *folders: Path, source: str = "examples") -> list[Row]:
        monkeypatch.setenv("FIGEVAL_DATA_COPIES", ",".join(f"storal={folder}" for folder in folders))
        return read_rows(f"storal:{source}_{rows}")

    return read


# ---- frozen items ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_the_options_are_balanced_morals_of_the_split(split: str, real_data: str) -> None:
    rows = read_rows(f"storal:mocpt_en_{split}")
    assert len(rows) == ROW_COUNTS[split]
    morals = {row["id"]: letters(row["options"][row["gold"]]) for row in rows}
    for row in rows:
        texts = [letters(option) for option in row["options"]]
        assert len(set(texts)) == 5
        assert row["option_ids"][row["gold"]] == row["id"]
        assert set(row["option_ids"]) <= morals.keys()
        assert row["topics"][row["gold"]] not in [t for index, t in enumerate(row["topics"]) if index != row["gold"]]
    offered = Counter(letters(option) for row in rows for option in row["options"])
    right = Counter(morals.values())
    assert all(offered[moral] == 5 * count for moral, count in right.items())
    assert max(Counter(row["gold"] for row in rows).values()) - len(rows) // 5 <= 1


@pytest.mark.parametrize("split", SPLITS)
def test_the_wrong_moral_has_one_place_replaced(split: str, real_data: str) -> None:
    rows = read_rows(f"storal:mopref_en_{split}")
    assert len(rows) == PREFERENCES[split]
    for row in rows:
        right, wrong = row["options"][row["gold"]], row["options"][1 - row["gold"]]
        assert letters(right) != letters(wrong)
        assert right[:1].isupper() == wrong[:1].isupper()
        assert abs(len(right.split()) - len(wrong.split())) <= 1
    gold_counts = Counter(row["gold"] for row in rows)
    assert abs(gold_counts[0] - gold_counts[1]) <= 1


@pytest.mark.parametrize("split", SPLITS)
def test_beginning_and_rest_are_the_story_and_phrases_stand_in_the_rest(split: str, real_data: str) -> None:
    stories = {row["id"]: row["story"] for row in read_rows(f"storal:st2mo_en_{split}")}
    rows = read_rows(f"storal:mo2st_en_{split}")
    assert (len(stories), len(rows)) == (ROW_COUNTS[split], OUTLINES[split])
    for row in rows:
        story = stories[row["id"]]
        assert story.startswith(row["beginning"])
        assert story.endswith(row["rest"])
        assert not any(map(str.isalpha, story[len(row["beginning"]) : len(story) - len(row["rest"])]))
        assert all(phrase in row["rest"].lower() for phrase in row["outline"])
        assert len(row["outline"]) <= 8


def test_stories_with_one_moral_are_a_cluster(real_data: str) -> None:
    rows = [row for split in SPLITS for row in read_rows(f"storal:st2mo_en_{split}")]
    by_cluster = Counter(row["same_moral"] for row in rows)
    assert sum(count > 1 for count in by_cluster.values()) == 108
    assert sum(count for count in by_cluster.values() if count > 1) == 233


def test_footnotes_of_the_source_do_not_make_a_moral_another(real_data: str) -> None:
    """Without digits behind words 15 more morals occur again: 93 are equal as they stand."""
    rows = [row for split in SPLITS for row in read_rows(f"storal:st2mo_en_{split}")]
    as_they_stand = Counter(letters(row["moral"]) for row in rows)
    assert sum(count > 1 for count in as_they_stand.values()) == 93


def test_a_moral_is_one_cluster_in_all_splits_of_a_copy(tmp_path: Path, read_copies: Any) -> None:
    for split in ("train", "test"):
        archive(tmp_path, split=split)
    train, test = (
        {row["same_moral"] for row in read_copies(f"mocpt_zh_{split}", tmp_path, source="published")}
        for split in ("train", "test")
    )
    assert train == test and len(test) == len(MORALS)


def test_footnotes_case_and_punctuation_make_no_other_cluster(tmp_path: Path, read_copies: Any) -> None:
    texts = ("Pride2 falls.3", "pride falls", "7 fall", "8 fall")
    write_json(tmp_path / "st2mo_data_en" / "test.json", [{"story": "A story.", "moral": text} for text in texts])
    clusters = [row["same_moral"] for row in read_copies("st2mo_en_test", tmp_path)]
    assert clusters[0] == clusters[1] and len(set(clusters)) == 3


def test_rows_that_do_not_exist_are_refused() -> None:
    with pytest.raises(DataError, match="storal has no rows 'mocpt_en_dev'; did you mean"):
        read_rows("storal:mocpt_en_dev")


# ---- the archive -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("split", SPLITS)
def test_both_forms_of_the_examples_have_the_same_rows(
    language: str, split: str, examples: Path, read_copies: Any
) -> None:
    """[MASK]…[P] of the encoders and source and target of T5; the other tasks begin with the same five stories."""
    bert, t5 = (read_copies(f"mocpt_{language}_{split}", examples / "understanding" / form) for form in ("bert", "t5"))
    assert bert == t5
    assert len(bert) == 5
    st2mo, mo2st = (read_copies(f"{task}_{language}_{split}", examples) for task in ("st2mo", "mo2st"))
    assert [row["moral"] for row in st2mo] == [row["moral"] for row in bert] == [row["moral"] for row in mo2st]
    assert [row["story"] for row in st2mo] == [row["story"] for row in bert]
    assert all(row["story"].startswith(outline_row["beginning"]) for row, outline_row in zip(st2mo, mo2st, strict=True))
    assert all(1 <= len(row["outline"]) <= 8 for row in mo2st)
    assert not any("extra_id" in str(row) or "</s>" in str(row) for row in (*bert, *st2mo, *mo2st))


@pytest.mark.parametrize("split", SPLITS)
def test_the_first_english_pairs_are_the_published_ones(split: str, examples: Path, read_copies: Any) -> None:
    """Beginnings, rests and sets of phrases are those of the published rows, in all 15 of them."""
    ours = {row["id"]: row for row in read_rows(f"storal:mo2st_en_{split}")}
    for row in read_copies(f"mo2st_en_{split}", examples):
        our_row = ours[row["id"]]
        assert (our_row["moral"], our_row["beginning"].strip(), our_row["rest"]) == (
            row["moral"],
            row["beginning"],
            row["rest"],
        )
        assert sorted(our_row["outline"]) == sorted(row["outline"])


def test_the_examples_do_not_pass_for_the_archive(examples: Path, read_copies: Any) -> None:
    with pytest.raises(DataError, match=r"has 5 of the 421 published rows.*--data storal=FOLDER") as raised:
        read_copies("mocpt_zh_test", examples, source="published")
    assert "\n" not in str(raised.value)


def archive(folder: Path, language: str = "zh", split: str = "test", n: int | None = None) -> Path:
    """A copy of the archive with stories of ours: one split of each task, as many rows as the paper has."""
    for task, count in {"mocpt": 5, "mopref": 2}.items():
        size = n or (PAPER_SIZES_OF_MOPREF if task == "mopref" else PAPER_SIZES)[language].get(split, 2)
        data = [
            {"text": mask_candidates(MORALS[:count], f"Story {row}."), "label": row % count + 1} for row in range(size)
        ]
        write_json(folder / task / f"data_{language}" / f"{split}.json", {"data": data})
    return folder


def write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def mask_candidates(candidates: list[str], story: str) -> str:
    return "".join(f"[MASK]{candidate} " for candidate in candidates) + f"[P]{story}"


def test_a_copy_is_found_by_the_number_of_candidates(tmp_path: Path, read_copies: Any) -> None:
    folder = archive(tmp_path)
    for task, count in {"mocpt": 5, "mopref": 2}.items():
        rows = read_copies(f"{task}_zh_test", folder, source="published")
        assert len(rows) == {"mocpt": 421, "mopref": 411}[task]
        assert rows[3]["gold"] == 3 % count
        assert rows[3]["options"] == tuple(MORALS[:count])


def test_the_hubs_form_of_mo2st_is_read(tmp_path: Path, read_copies: Any) -> None:
    row = {"id": 1, "beginning": "从前，", "story": "从前，有一只乌鸦。", "moral": "骄兵必败。"}
    write_json(tmp_path / "mo2st_data_zh" / "test.json", [row])
    (published_row,) = read_copies("mo2st_zh_test", tmp_path)
    assert (published_row["rest"], published_row["outline"], published_row["language"]) == ("有一只乌鸦。", (), "zh")


def test_the_form_with_outlines_is_preferred(tmp_path: Path, read_copies: Any) -> None:
    folder = tmp_path / "mo2st_data_zh"
    row = {"id": 1, "beginning": "从前，", "story": "从前，有乌鸦。", "moral": "骄兵必败。"}
    write_json(folder / "test.json", [row])
    (folder / "test.source").write_text("骄兵必败。#从前，#有乌鸦", "utf-8")
    (folder / "test.target").write_text("有乌鸦。", "utf-8")
    (outlined,) = read_copies("mo2st_zh_test", tmp_path)
    assert outlined["outline"] == ("有乌鸦",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": 1}, "row 1: there is no text 'text' (it has 'label')"),
        ({"text": "[MASK]a [MASK]b story", "label": 1}, "field 'text': there is no [P] before the story"),
        ({"text": mask_candidates(MORALS, "s"), "label": 0}, "field 'label': 0 is not a number from 1 to 5"),
        ({"text": mask_candidates(MORALS, "s"), "label": "3"}, "field 'label': '3' is not a number from 1 to 5"),
        ({"text": mask_candidates(MORALS[:3], "s"), "label": 1}, "3 candidates, but moCpt has five and moPref two"),
        ({"text": mask_candidates(MORALS, ""), "label": 1}, "row 1: the story is empty"),
        ("a line", "row 1: there is no text 'text' (it has no columns)"),
    ],
)
def test_an_archive_with_other_columns_is_told_in_one_line(
    row: Any, message: str, tmp_path: Path, read_copies: Any
) -> None:
    write_json(tmp_path / "data_en" / "test.json", {"data": [row]})
    with pytest.raises(DataError) as raised:
        read_copies("mocpt_en_test", tmp_path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_of_two_tasks_is_refused(tmp_path: Path, read_copies: Any) -> None:
    data = [{"text": mask_candidates(MORALS[:count], "s"), "label": 1} for count in (2, 5)]
    write_json(tmp_path / "data_en" / "test.json", {"data": data})
    with pytest.raises(DataError, match="row 2: it belongs to mocpt, but the rows before it to mopref"):
        read_copies("mopref_en_test", tmp_path)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"Once upon a time.\n", None, "has no test.target next to it; complete your copy"),
        ("Es w\u00e4re.\n".encode("latin-1"), b"A.\n", "is not utf-8"),
        (b"One.\nTwo.\n", b"A.\n", "has 2 lines, but its targets have 1"),
    ],
)
def test_text_files_that_cannot_be_read_are_told_in_one_line(
    source: bytes, target: bytes | None, message: str, tmp_path: Path, read_copies: Any
) -> None:
    copy = tmp_path / "st2mo_data_en"
    copy.mkdir()
    (copy / "test.source").write_bytes(source)
    if target is not None:
        (copy / "test.target").write_bytes(target)
    with pytest.raises(DataError, match=message):
        read_copies("st2mo_en_test", tmp_path)


@pytest.mark.parametrize(
    ("target", "text"),
    [("<extra_id_0>A.</s>", "A."), ("<extra_id_1>A.<extra_id_0></s>", "A."), ("A.", "A."), ("<extra_id_1>A", "A")],
)
def test_a_target_is_without_its_markers_and_separators_of_unicode_end_no_line(
    target: str, text: str, tmp_path: Path, read_copies: Any
) -> None:
    copy = tmp_path / "st2mo_data_en"
    copy.mkdir()
    (copy / "test.source").write_bytes("Once\u2028upon\x0ba time.\n".encode())
    (copy / "test.target").write_text(f"{target}\n", "utf-8")
    (row,) = read_copies("st2mo_en_test", tmp_path)
    assert (row["story"], row["moral"]) == ("Once\u2028upon\x0ba time.", text)


# ---- as a user -------------------------------------------------------------------------------------------------------


def test_the_listing_says_which_tasks_need_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    """The examples of the repository are none, and a file that can be fetched needs none."""
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    archive(tmp_path / "mirror" / "storal", n=5)
    needed = {f"{task}_en_published" for task in ("mocpt", "mopref", "mo2st")}
    needed |= {f"{task}_zh" for task in PUBLISHED_TASKS}
    needed |= {f"{task}_validation" for task in needed if task != "faithfulness_zh"}
    needed |= {"rewritten_en", "rewritten_zh"}
    notes = list_data_notes(cli)
    assert {name for name, availability in notes.items() if availability == "needs your copy"} == needed
    assert {notes[f"{task}_en"] for task in PUBLISHED_TASKS} == {"to be fetched"}
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"storal={archive(tmp_path / 'copy')}")
    assert {name for name, availability in list_data_notes(cli).items() if availability == "here"} == {
        "mocpt_zh",
        "mopref_zh",
    }


def list_data_notes(cli: Cli) -> dict[str, str]:
    """What `figeval ls tasks` says of the data of each task."""
    listing = json.loads(cli("ls", "tasks", "storal_*", "--json").out)
    return {row["name"].removeprefix("storal_"): row["availability"] for row in listing}


@pytest.mark.slow
def test_chinese_runs_on_a_users_copy(tmp_path: Path) -> None:
    archive(tmp_path / "copy")
    arguments = ("--tasks", "storal_mocpt_zh", "--model", "overlap", "--output_path", "run", "--data", "storal=copy")
    run_process("run", *arguments, cwd=tmp_path)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [(task["task"], task["n"]) for task in record["tasks"]] == [
        ("storal_mocpt_zh", 421),
        ("storal_mocpt_zh@no_query", 421),
    ]


def test_a_suite_leaves_out_the_tasks_that_a_copy_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = archive(tmp_path / "copy")
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"storal={copy}")

    def run(*tasks: str) -> figeval.RunRecord:
        return figeval.run(tasks, model="random", limit=2, baselines=False, output_path=tmp_path / "run").record

    record = run("storal_zh")
    assert [task.task for task in record.tasks] == ["storal_mocpt_zh", "storal_mopref_zh"]
    (omission,) = record.left_out
    assert omission.tasks == ["storal_st2mo_zh", "storal_mo2st_zh"]
    assert "thu-coai/MoralStory" in omission.cure and "Jiann/STORAL" in omission.cure
    with pytest.raises(figeval.MissingCopy, match="published st2mo rows"):
        run("storal_zh", "storal_st2mo_zh")
    for split, size in {"train": 3368, "test": 421}.items():  # the answers that `random` draws are those of train
        write_json(copy / "st2mo_data_zh" / f"{split}.json", [{"story": "甲。", "moral": "乙。"}] * size)
    assert [task.task for task in run("storal_zh").tasks][2:] == ["storal_st2mo_zh"]
    monkeypatch.delenv("FIGEVAL_DATA_COPIES")
    with pytest.raises(figeval.MissingCopy, match="published mocpt rows"):
        run("storal_zh")


def test_the_validation_split_is_that_of_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"id": 1, "beginning": "Once,", "story": "Once, a crow.", "moral": "Beware."}
    for split, size in {"train": 1068, "valid": 355}.items():
        write_json(tmp_path / "mo2st_data_en" / f"{split}.json", [row] * size)
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"storal={tmp_path}")
    record = figeval.run(
        "storal_mo2st_en", model="random", protocol="published", split="validation", limit=2, output_path=tmp_path
    ).record
    (task,) = record.tasks
    assert (task.task, task.status) == ("storal_mo2st_en_published_validation", "done")
    assert "no outlines" in task.settings["remark"]


@pytest.mark.parametrize(("task", "size"), [("st2mo", 355), ("mo2st", 354)])
def test_texts_are_written_for_the_validation_split_too(task: str, size: int, real_data: str) -> None:
    harness = Harness()
    name = harness.catalogue.tasks.get(f"storal_{task}_en").splits["validation"]
    assert sum(1 for _ in harness.examples(harness.catalogue.tasks.get(name))) == size


def test_a_training_reads_a_users_copy(tmp_path: Path, cli: Cli) -> None:
    copy = archive(tmp_path / "copy", split="train", n=7)
    arguments = ("--task", "storal_mocpt_zh", "--model", "minilm", "--output", tmp_path / "model")
    assert "7 of the 3368 published rows" in cli("train", *arguments, "--data", f"storal={copy}").err


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = run_process("validate", "storal_mocpt_zh", "--data", "storal=/nowhere", cwd=tmp_path, code=2)
    assert (
        "'storal=/nowhere' is not NAME=FOLDER with an existing folder; write, for example, storal=FOLDER" in done.stderr
    )


def test_published_candidates_are_another_task() -> None:
    catalogue = Harness().catalogue
    for task in ("mocpt", "mopref", "mo2st"):
        assert catalogue.tasks.get(f"storal_{task}_en").protocols == {"published": f"storal_{task}_en_published"}
        assert catalogue.tasks.get(f"storal_{task}_en_published").data["test"] == f"storal:published_{task}_en_test"
