"""Digests of what a model has seen: which examples are the same, and what of the models before it is known."""

from __future__ import annotations

import hashlib
import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from figeval import (
    ChoiceExample,
    Example,
    GenerationExample,
    JointExample,
    PairExample,
    RankingExample,
    SpanExample,
    TrainError,
)
from figeval.records.digests import SeenTexts
from figeval.records.seen import FILE, Ancestor, Lineage, lineage_of, read, weights_in, write


def choice(query: str, *options: str) -> ChoiceExample:
    return ChoiceExample(id=query, query=query, options=options or ("a", "b"), gold=0)


def pair(left: str, right: str) -> PairExample:
    return PairExample(id=left, left=left, right=right, label=None)


def ranking(query: str, *candidates: str) -> RankingExample:
    return RankingExample(id="r", query=query, candidates=candidates or ("a",), relevant=frozenset((0,)))


def span(text: str) -> SpanExample:
    return SpanExample(id="s", text=text, given="given", known="known", gold=None)


def writing_example(text: str) -> GenerationExample:
    return GenerationExample(id="g", inputs={"proverb": "Haste makes waste."}, references=(text,))


def lineage_of_examples(*examples: Example) -> Lineage:
    return Lineage(trained=SeenTexts.of_questions(examples))


def lineage_of_passages(*texts: str) -> Lineage:
    return Lineage(trained=SeenTexts.of_passages(texts))


NARRATIVE = "He mended the roof, before it rained - 2 days early."


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (choice("he mended the roof before it rained 2 days early", "x", "y"), True),
        (ranking(NARRATIVE.upper()), True),
        (span(NARRATIVE), True),
        (writing_example(NARRATIVE), True),
        (JointExample(id="j", query=NARRATIVE, candidates=("a",), relevant=frozenset((0,)), parts=(span("x"),)), True),
        (choice(NARRATIVE.replace("2", "3")), False),
        (pair(NARRATIVE, "It rained."), False),
        (choice("Which one?", NARRATIVE), False),
        (ranking("Which one?", NARRATIVE), False),
    ],
)
def test_the_text_that_is_asked_about_counts_whatever_its_spelling_and_its_task(other: Example, same: bool) -> None:
    assert lineage_of_examples(choice(NARRATIVE)).role(other) == ("trained" if same else None)


def test_letters_of_all_scripts_count() -> None:
    assert lineage_of_examples(choice("Übung, МАСТЕР 一石二鳥!")).role(choice("übung мастер 一石二鳥")) == "trained"
    assert lineage_of_examples(choice("un café déjà bu")).role(choice("un cafe\u0301 de\u0301ja\u0300 bu")) == "trained"
    assert lineage_of_examples(choice("一石二鳥")).role(choice("二鳥一石")) is None
    assert lineage_of_examples(choice("...")).role(choice("???")) is None  # without a letter nothing can be recognised


def test_a_pair_counts_with_both_of_its_sides() -> None:
    line = lineage_of_examples(pair("He kicked the bucket.", "He died."))
    assert line.role(pair("he kicked the bucket", "He died!")) == "trained"
    assert line.role(pair("He kicked the bucket.", "He kicked a pail.")) is None
    assert line.role(pair("He kicked the bucket. He", "died.")) is None
    assert line.role(choice("He kicked the bucket.")) is None


def test_a_text_that_was_only_read_counts_wherever_it_is_asked_about() -> None:
    line = lineage_of_passages("He died.", NARRATIVE)
    assert line.role(pair("He kicked the bucket.", "He died.")) == "trained"
    assert line.role(choice(NARRATIVE)) == line.role(writing_example(NARRATIVE)) == "trained"
    assert line.role(choice("Which one?", NARRATIVE)) is None


STORY = (
    "A ferryman who could not swim told nobody. Each spring he bought a longer rope, and each autumn he was praised "
    "for his care. When the river rose, the rope held the boat, the goat and the widow, and he stood dry among them."
)
TEMPLATES = (
    "Story: {}", "text:{}", "17\t{}\tmetaphor", "{} => idiom", 'The text "{}" is figurative.', "[TEXT] {} [/TEXT]",
    "Which proverb fits this story? {} Answer:", "Read it.\n{}\nMoral:", "<|user|>\n{}\n<|assistant|>\nyes",
    "premise: {} hypothesis: He sank.", "12. {}", "{} Label: literal",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", [STORY, "He kicked the bucket at noon.", "Time is a thief", "नाच न जाने आँगन टेढ़ा", "画蛇添足反而失酒"]
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_text_behind_a_prefix_is_known(template: str, text: str) -> None:
    framed = template.format(text)
    assert lineage_of_passages(framed).role(choice(text)) == "trained"
    assert lineage_of_examples(choice(framed)).role(choice(text)) == "trained"
    assert lineage_of_examples(choice(text)).role(choice(framed)) == "trained"


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_text_with_another_word_is_not_known(template: str) -> None:
    """Minimal pairs differ in one word, often the last or the first one."""
    for text in (STORY, "He kicked the bucket at noon."):
        words = text.split()
        for index in (0, 1, len(words) // 2, len(words) - 1):
            other = " ".join([*words[:index], "otherwise", *words[index + 1 :]])
            framed = template.format(other)
            assert lineage_of_passages(framed).role(choice(text)) is None
            assert lineage_of_examples(choice(framed)).role(choice(text)) is None


def test_labels_part_a_line_into_the_two_sides_of_a_pair() -> None:
    line = "premise: He kicked the bucket hypothesis: He died"
    assert lineage_of_passages(line).role(pair("He kicked the bucket.", "He died.")) == "trained"
    assert lineage_of_examples(choice(line)).role(pair("He kicked the bucket.", "He died.")) == "trained"
    assert lineage_of_examples(choice(line)).role(pair("He kicked the bucket.", "He ran.")) is None


def test_what_a_story_says_in_passing_is_not_known() -> None:
    line = lineage_of_passages(STORY)
    assert line.role(choice("each spring he bought a longer rope")) is None
    assert line.role(choice("the goat and the widow")) is None


def test_vowel_signs_tell_texts_apart() -> None:
    assert lineage_of_examples(choice("कम")).role(choice("काम")) is None
    assert lineage_of_examples(choice("काम")).role(choice("काम।")) == "trained"


def test_marks_of_scheme_1_match_what_they_matched(tmp_path: Path) -> None:
    """Frozen digests: the question "one", the pair of "left" and "right", the passage "कम" without its marks."""
    contents = ["question\none", "question\nleft\nright", "passage\nकम"]
    digests = sorted(sha256(text.encode()).hexdigest()[:16] for text in contents)
    body = "".join(f"{digest}\n" for digest in digests)
    header = {"scheme": 1, "ancestors": [], "unknown": [], "trained": 3, "chosen": 0}
    header["sha256"] = sha256(body.encode()).hexdigest()
    (tmp_path / FILE).write_text(json.dumps(header) + "\n" + body)
    old = read(tmp_path / FILE)
    for example in (choice("One!"), pair("Left", "right."), choice("काम")):
        assert old.role(example) == "trained"
    assert old.role(choice("two")) is None
    write(tmp_path, old | lineage_of_examples(choice("two")))
    again = read(tmp_path / FILE)
    assert again.role(choice("One!")) == again.role(choice("two")) == "trained"


def test_to_be_trained_on_is_more_than_to_be_chosen_on() -> None:
    digests = SeenTexts.of_questions([choice(NARRATIVE)])
    assert Lineage(chosen=digests).role(choice(NARRATIVE)) == "chosen"
    assert Lineage(trained=digests, chosen=digests).role(choice(NARRATIVE)) == "trained"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    about = {"task": "t", "trained_from": "minilm"}
    line = Lineage(
        (Ancestor("models/a", about), Ancestor("minilm")),
        SeenTexts.of_questions([choice("one"), choice("two")]),
        SeenTexts.of_questions([choice("three")]),
        ("models/old",),
    )
    write(tmp_path, line)
    assert read(tmp_path / FILE) == line
    lines = (tmp_path / FILE).read_text().splitlines()
    assert json.loads(lines[0])["scheme"] == 2
    assert len(lines) == 4 and all(len(line) == 16 for line in lines[1:])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("\n", "\n0", "its checksum differs"),
        ('"scheme": 2', '"scheme": 3', "digests of scheme 3; this figeval reads up to 2"),
        ('{"scheme"', '["scheme"', "is damaged"),
        ('"trained": 1', '"trained": "x"', "is damaged"),
        ('"trained": 1', '"trained": 0', "it does not have as many digests as it declares"),
        ('"trained": 1', '"trained": 1e999', "is damaged"),
        ('"ancestors": []', '"ancestors": [{"model": "x", "folder": 1, "about": 5}]', "is damaged"),
    ],
)
def test_a_damaged_file_is_one_line_with_the_cure(tmp_path: Path, old: str, new: str, says: str) -> None:
    write(tmp_path, lineage_of_examples(choice("one")))
    file = tmp_path / FILE
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(TrainError, match=says):
        read(file)


def folder(parent: Path, name: str, origin: str, line: Lineage | None = None) -> Path:
    """A trained model; without a `line` an older figeval made it."""
    folder = parent / name
    folder.mkdir()
    (folder / "figeval.json").write_text(json.dumps({"about": {"trained_from": origin}}))
    if line is not None:
        write(folder, lineage_of(origin, Path(origin) if Path(origin).is_dir() else None) | line)
    return folder


def test_digests_are_those_of_all_ancestors_also_when_these_are_gone(tmp_path: Path) -> None:
    first = folder(tmp_path, "first", "minilm", lineage_of_examples(choice("one")))
    second = folder(tmp_path, "second", str(first), lineage_of_examples(choice("two")))
    shutil.rmtree(first)
    line = lineage_of("second", second)
    assert [ancestor.model for ancestor in line.ancestors] == ["second", str(first), "minilm"]
    assert (line.role(choice("one")), line.role(choice("two")), line.unknown) == ("trained", "trained", ())


@pytest.mark.parametrize("origin", ["~nouser/x", "n" * 300, "a\0b"])
def test_an_origin_that_no_path_has_is_a_model_without_a_folder(tmp_path: Path, origin: str) -> None:
    line = lineage_of("first", folder(tmp_path, "first", origin))
    assert [ancestor.model for ancestor in line.ancestors] == ["first", origin]


def test_without_a_copy_the_parents_folder_is_read(tmp_path: Path) -> None:
    first = folder(tmp_path, "first", "minilm", lineage_of_examples(choice("one")))
    second = folder(tmp_path, "second", str(first))
    line = lineage_of("second", second)
    assert (line.role(choice("one")), line.unknown) == ("trained", ("second",))


def test_an_ancestor_that_was_unknown_is_asked_again(tmp_path: Path) -> None:
    first = folder(tmp_path, "first", "minilm")
    second = folder(tmp_path, "second", str(first), lineage_of_examples(choice("two")))
    assert lineage_of("second", second).unknown == (str(first),)
    write(first, lineage_of("minilm", None) | lineage_of_examples(choice("one")))
    line = lineage_of("second", second)
    assert (line.role(choice("one")), line.unknown) == ("trained", ())


def test_models_that_name_each_other_come_to_an_end(tmp_path: Path) -> None:
    first = folder(tmp_path, "first", str(tmp_path / "second"))
    folder(tmp_path, "second", str(first))
    assert len(lineage_of("first", first).unknown) == 2


def test_a_model_is_known_by_its_weights_where_it_is_a_folder(tmp_path: Path) -> None:
    for name, weights in (("minilm", b"one"), ("copy", b"one"), ("other", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
    names = ("minilm", "copy", "other")
    original, copy, other = (lineage_of(name, tmp_path / name).ancestors[0].identified().weights for name in names)
    assert original == copy != other


def test_weights_are_hashed_again_only_if_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    first = weights_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)
        assert weights_in(tmp_path) == first
    file.write_bytes(b"heights")
    second = weights_in(tmp_path)
    assert second != first
    (tmp_path / "new").write_bytes(b"weights")
    (tmp_path / "new").replace(file)
    assert weights_in(tmp_path) == first
