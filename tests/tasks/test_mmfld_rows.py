"""MMFLD's rows: counts and digests of the real files, in proportion from the first row on; no text is shown here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from figeval import DataError, Harness
from tests.cli.conftest import Cli
from tests.sources import read_rows

ROOT = Path(__file__).resolve().parents[2]

LANGUAGES = {
    "hyperbole": {"en", "zh"},
    "idiom": {"de", "en", "es", "it"},
    "metaphor": {"en", "es", "fa", "ru"},
    "simile": {"en", "zh"},
}
TASKS = {"hyperbole": (1300, 650), "idiom": (799, 625), "metaphor": (15590, 7795), "simile": (2562, 1137)}


@pytest.mark.parametrize("form", list(TASKS))
def test_every_form_has_its_rows(form: str, real_data: str) -> None:
    rows = read_rows(f"mmfld:{form}")
    figurative = sum(row["label"] == "figurative" for row in rows)
    assert (len(rows), figurative) == TASKS[form]
    assert {row["language"] for row in rows} == LANGUAGES[form]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["text"].strip() for row in rows)


def test_one_language_is_a_part_of_all(real_data: str) -> None:
    german = [row for row in read_rows("mmfld:idiom") if row["language"] == "de"]
    assert sorted(row["id"] for row in german) == sorted(row["id"] for row in read_rows("mmfld:idiom_de"))
    assert Counter(row["label"] for row in german) == {"figurative": 181, "literal": 19}


def test_train_shares_no_text_with_test(real_data: str) -> None:
    train, test = read_rows("mmfld:hyperbole_en_train"), read_rows("mmfld:hyperbole_en")
    assert Counter(row["label"] for row in train) == {"figurative": 1676, "literal": 1676}
    assert not {row["text"].casefold() for row in train} & {row["text"].casefold() for row in test}
    assert not {row["item"] for row in train} & {row["item"] for row in test}


def test_parallel_lines_are_one_item_and_so_are_equal_texts(real_data: str) -> None:
    assert set(Counter(row["item"] for row in read_rows("mmfld:hyperbole_en")).values()) == {2}
    both = Counter()
    for row in read_rows("mmfld:metaphor_ru"):
        both[row["item"]] |= 1 if row["label"] == "literal" else 2
    assert sum(labels == 3 for labels in both.values()) >= 37  # the same text with both labels, up to punctuation


def test_the_first_rows_have_labels_and_languages_in_proportion(real_data: str) -> None:
    """`--limit 80` of 799 idioms sees a tenth of each of the eight files."""
    files = [(row["language"], row["label"]) for row in read_rows("mmfld:idiom")]
    counts, first = Counter(files), Counter(files[:80])
    assert all(abs(first[file] - count / 10) <= 1 for file, count in counts.items())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("idioms", "mmfld has no form 'idioms'; did you mean 'idiom'"),
        ("idiom_xx", "the language 'xx' is not one of its languages; idiom is available in de, en, es, it"),
        ("idiom_fa", "the language 'fa' has no texts with the form idiom"),
        ("hyperbole_zh_train", "the language 'zh_train' is not one of its languages"),
    ],
)
def test_what_is_not_there_is_named(path: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read_rows(f"mmfld:{path}")
    assert message in str(raised.value)


def test_a_language_that_nobody_knows_is_one_line(tmp_path: Path, real_data: str, cli: Cli) -> None:
    task = "name: mine\ntype: classification\nlabels: [figurative, literal]\ndata: {test: 'mmfld:idiom_xx'}\n"
    fields = "fields: {id: row.id, text: row.text, label: row.label}\n"
    (tmp_path / "mine.task.yaml").write_text(task + fields, encoding="utf-8")
    outcome = cli("run", "--include_path", tmp_path, "--tasks", "mine", "--model", "chance")
    assert "the language 'xx' is not one of its languages" in outcome.complaint


def test_all_wordings_ask_for_the_form_and_never_show_the_label() -> None:
    """The gold label is among the variables of a template; that none of them uses it is seen from two examples."""
    harness = Harness()
    (task,) = harness.catalogue.expand(["mmfld_idiom"])
    assert [*task.prompts] == ["short", "question", "instruction"]
    assert json.dumps(task.verbalizer, default=list)
    for wording in (task, *(task.with_prompt(name) for name in task.prompts)):
        source = (ROOT / "templates" / str(wording.template)).read_text(encoding="utf-8")
        assert "meta.form" in source
        assert "label }}" not in source
