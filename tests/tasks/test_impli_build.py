"""`figeval benchmark build impli-pairs`: golden cases, properties of the hypotheses, and the command on own files."""

from __future__ import annotations

import csv
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MIRROR
from tests.processes import figeval

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "impli_build.json").read_text(encoding="utf-8"))
LABELS = {"ent": "entailment", "lit": "non-entailment", "adv": "non-entailment", "ant": "non-entailment"}
KINDS = ("ent", "lit", "adv", "ant", "met")
DATA = ("corpora/wordnet.zip", "taggers/averaged_perceptron_tagger_eng")


@pytest.fixture(scope="module", autouse=True)
def wordnet():
    """NLTK with a WordNet and the tagger; all is skipped where one of them, or lemminflect, is missing."""
    import nltk

    pytest.importorskip("lemminflect")
    mirror = os.environ.get("FIGEVAL_DATA_MIRROR", "").split(os.pathsep)[0] or MIRROR
    before = list(nltk.data.path)
    if mirror:
        nltk.data.path += [f"{mirror}/oewn/nltk_root", f"{mirror}/nltk/packages"]
    try:
        for name in DATA:
            nltk.data.find(name)
    except LookupError as error:
        nltk.data.path[:] = before
        pytest.skip(f"no NLTK data: {error}")
    yield
    nltk.data.path[:] = before


@pytest.fixture
def call(cli):
    """`call("--sentences", …)` → exit code, stdout, stderr."""

    def build(*arguments):
        outcome = cli("benchmark", "build", "impli-pairs", *arguments)
        return outcome.code, outcome.out, outcome.err

    return build


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def derive(call, tmp_path):
    """`derive(sentence, definitions, …)`: by kind the pair that is built of a sentence, or why there is none.

    `located` is the surface of the idiom.
    """

    def build(sentence, definitions, **fields):
        rows = write_rows(tmp_path / "in.jsonl", [{"label": "figurative", "sentence": sentence, **fields}])
        meanings = [{"idiom": idiom, "definition": definition} for idiom, definition in definitions.items()]
        listed = write_rows(tmp_path / "meanings.jsonl", meanings or [{"idiom": "x", "definition": "y"}])
        call("--sentences", rows, "--definitions", listed, "--output", "out", "--sheet", 0)
        pairs = {}
        for kind in ("located", *KINDS):
            for name in (f"{kind}.jsonl", f"{kind}_rejected.jsonl"):
                if (file := tmp_path / "out" / name).is_file():
                    pairs |= dict.fromkeys([kind], row) if (row := next(iter(read_rows(file)), None)) else {}
        return pairs

    return build


# ---- golden cases ----------------------------------------------------------------------------------------------------


SUBSTITUTED = ("sentence", "idiom")


def check_pair(pairs, kind, case):
    pair = pairs.get(kind) or pairs["located"]
    assert pair.get("hypothesis", pair.get("reason")) == case.get("hypothesis", case.get("reason"))


@pytest.mark.slow
def test_substitutions(call, tmp_path):
    """In as few builds as have each sentence and each idiom once."""
    builds = []
    for case in GOLDEN["substitutions"]:
        keys = {case["sentence"], case["idiom"]}
        cases = next(
            (each for each in builds if not keys & {each_case[key] for each_case in each for key in SUBSTITUTED}), []
        )
        if not cases:
            builds.append(cases)
        cases.append(case)
    for number, cases in enumerate(builds):
        rows = [{"label": "figurative", "sentence": case["sentence"], "idiom": case["idiom"]} for case in cases]
        meanings = [{"idiom": case["idiom"], "definition": case["definition"]} for case in cases]
        listed = write_rows(tmp_path / "meanings.jsonl", meanings)
        source, folder = write_rows(tmp_path / "in.jsonl", rows), tmp_path / f"out{number}"
        call("--sentences", source, "--definitions", listed, "--output", folder, "--kinds", "ent", "--sheet", 0)
        got = {row["provenance"]["row"]: row["hypothesis"] for row in read_rows(folder / "ent.jsonl")}
        for name in ("located", "ent"):
            got |= {row["row"]: row["reason"] for row in read_rows(folder / f"{name}_rejected.jsonl")}
        expected = {row: case.get("hypothesis", case.get("reason")) for row, case in enumerate(cases, 1)}
        wrong = {cases[row - 1]["why"]: (got.get(row), text) for row, text in expected.items() if got.get(row) != text}
        assert not wrong


@pytest.mark.parametrize("case", GOLDEN["metaphors"], ids=lambda case: case["why"][:60])
def test_metaphors(derive, case):
    check_pair(derive(case["sentence"], {}, metaphor=case["metaphor"], replacement=case["replacement"]), "met", case)


@pytest.mark.parametrize("case", GOLDEN["antonyms"], ids=lambda case: case["why"][:60])
def test_antonyms(derive, case):
    check_pair(derive(case["sentence"], {case["idiom"]: case["definition"]}), "ant", case)


@pytest.mark.parametrize("case", GOLDEN["wrong"], ids=lambda case: case["why"][:60])
def test_wrong_definitions(derive, case):
    pair = derive(case["sentence"], {case["idiom"]: case["right"], **case["others"]}, idiom=case["idiom"])["adv"]
    if case["of"] is None:
        assert pair["reason"] == "no idiom of similar form has a definition that fits and differs"
    else:
        assert pair["provenance"]["of"] == case["of"]


@pytest.mark.parametrize("case", GOLDEN["located"], ids=lambda case: case["why"][:60])
def test_where_an_idiom_stands(derive, case):
    span = dict(zip(("start", "end"), case.get("span", ()), strict=False))
    idiom = {"idiom": case["idiom"]} if "idiom" in case else {}
    located = derive(case["sentence"], dict.fromkeys(case["idioms"], "to be"), **idiom, **span)["located"]
    assert located.get("reason") == case.get("reason")
    if "found" in located:
        occurrence = located["found"]
        assert case["sentence"][occurrence["start"] : occurrence["end"]] == occurrence["surface"] == case["found"]
        assert not span or (occurrence["start"], occurrence["end"]) == tuple(case["span"])


# ---- any text --------------------------------------------------------------------------------------------------------


def test_of_any_text_nothing_outside_of_the_idiom_changes_but_an_article(call, tmp_path):
    generator = random.Random(0)

    def text():
        return "".join(generator.choices("ab It's kicks the bucket, a an of to be (some) someone's '\"-/;.!é", k=30))

    rows = [
        {"sentence": f"{text()} kicked the bucket {text()}", "label": "figurative", "idiom": "kick the bucket"}
        for _ in range(300)
    ]
    for row in rows:
        row["definition"] = generator.choice([text(), "to die", "to be happy", "a fast car"])
    source = write_rows(tmp_path / "in.jsonl", rows)
    meanings = write_rows(tmp_path / "meanings.jsonl", DEFINITIONS)
    code, _, err = call("--sentences", source, "--definitions", meanings, "--output", "out", "--kinds", "ent")
    assert code == 0, err
    pairs = read_rows(tmp_path / "out" / "ent.jsonl")
    assert len(pairs) > 30
    for pair in pairs:
        before, _, after = pair["premise"].partition("kicked the bucket")
        assert pair["hypothesis"].startswith(before[: max(0, len(before) - 4)])
        assert pair["hypothesis"].endswith(after)
        assert pair["hypothesis"].casefold() != pair["premise"].casefold()


# ---- the command -----------------------------------------------------------------------------------------------------

DEFINITIONS = [
    {"idiom": "kick the bucket", "definition": "to die"},
    {"idiom": "kick the habit", "definition": "to stop a harmful routine"},
    {"idiom": "over the moon", "definition": "to be very happy"},
    {"idiom": "under the moon", "definition": "to be very poor"},
    {"idiom": "a piece of cake", "definition": "an easy task"},
]
PEOPLE = ("miller", "baker", "farmer", "sailor", "teacher", "doctor")


def sentences():
    for who in PEOPLE:
        yield {"sentence": f"Last year the old {who} kicked the bucket.", "label": "figurative"}
        yield {"sentence": f"For the {who} it was a piece of cake.", "label": "Idiomatic"}
        yield {"sentence": f"The {who} was over the moon.", "label": "figurative", "idiom": "Over the Moon"}
        yield {"sentence": f"In the stable the {who} kicked the bucket.", "label": "literal"}
        yield {"sentence": f"The {who} devoured the book.", "metaphor": "devour", "replacement": "read"}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def inputs(tmp_path):
    source = write_rows(tmp_path / "in.jsonl", sentences())
    return "--sentences", source, "--definitions", write_rows(tmp_path / "meanings.jsonl", DEFINITIONS)


@pytest.mark.slow
def test_a_build_runs_at_once_and_again_is_the_same(call, inputs, tmp_path, cli):
    code, out, err = call(*inputs, "--output", "one", "--name", "Own")
    assert code == 0, err
    assert "ent: 18 of 18 sentences gave a pair" in out
    assert "lit: 6 of 6 sentences gave a pair" in out
    assert "met: 6 of 6 sentences gave a pair" in out
    assert "6 tasks, 0 errors" in cli("validate", "--include_path", "one").out
    run = cli("run", "--include_path", "one", "--tasks", "own", "--model", "overlap", "--output_path", "run")
    assert (run.code, "own_idioms_ent" in run.out) == (0, True)
    code, _, err = call(*inputs, "--output", "one", "--name", "own")
    assert (code, err.count("kept from an earlier session")) == (0, 6)
    call(*inputs, "--output", "two", "--name", "own")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_pairs_say_where_they_come_from(call, inputs, tmp_path):
    call(*inputs, "--output", "out")
    sentence_rows = {str(number): row for number, row in enumerate(sentences(), 1)}
    everything = read_rows(tmp_path / "out" / "all.jsonl")
    pairs = [row for kind in KINDS for row in read_rows(tmp_path / "out" / f"{kind}.jsonl")]
    assert everything == sorted(pairs, key=lambda row: row["provenance"]["row"])
    for row in pairs:
        source, provenance = sentence_rows[row["id"].partition("-")[2]], row["provenance"]
        assert row["label"] == LABELS.get(row["kind"], "entailment")
        assert row["premise"] == source["sentence"] != row["hypothesis"]
        assert row["premise"][row["idiom_start"] : row["idiom_end"]] == provenance["surface"]
        assert provenance["row"] == int(row["id"].partition("-")[2])
        if row["kind"] != "met":
            assert DEFINITIONS[provenance["definition_row"] - 1]["definition"] == provenance["definition"]
        if row["kind"] == "adv":
            assert provenance["of"] != row["idiom"] and provenance["because"]
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    for kind, notes in report["kinds"].items():
        assert notes["pairs"] + sum(notes["rejected"].values()) == notes["sentences"]
        refused = read_rows(tmp_path / "out" / f"{kind}_rejected.jsonl")
        assert len(refused) == sum(notes["rejected"].values())
    assert report["located"]["read"] == {"figurative": 18, "literal": 6, "metaphor": 6}


def test_a_sheet_hides_the_kinds_and_is_read_back(call, inputs, tmp_path, cli):
    call(*inputs, "--output", "out", "--sheet", 4)
    sheet, key = tmp_path / "out" / "sheets" / "sheet_1.csv", tmp_path / "out" / "sheets" / "key.json"
    with sheet.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["item", "first sentence", "text", "ungrammatical", "does not follow", "comment"]
    assert len(rows) == sum(min(4, len(read_rows(tmp_path / "out" / f"{kind}.jsonl"))) for kind in KINDS)
    assert not any(kind in cell for row in rows for cell in row.values() for kind in ("adv-", "ent-"))
    authors = {item: pair["author"] for item, pair in json.loads(key.read_text())["items"].items()}
    for row in rows:
        row["does not follow"] = "no" if authors[row["item"]] in ("ent", "met") else "yes"
    with sheet.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert re.search(r"does not follow +adv +1\.0000", cli("annotate", "score", "out/sheets").out)
    filled = sheet.read_bytes()
    assert call(*inputs, "--output", "out", "--sheet", 4)[0] == 0
    assert sheet.read_bytes() == filled, "a sheet that is filled in stays"
    code, _, err = call(*inputs, "--output", "out", "--sheet", 2)
    assert (code, "already has sheets, which may have been filled in" in err) == (2, True)


def test_stages_of_a_stopped_build_are_kept(call, inputs, tmp_path):
    call(*inputs, "--output", "out", "--kinds", "ent", "--sheet", 0)
    code, _, err = call(*inputs, "--output", "out", "--sheet", 0)
    assert (code, "ent: kept" in err, "lit: kept" in err) == (0, True, False)
    (tmp_path / "out" / "lit.jsonl").write_text("edited\n")
    _, _, err = call(*inputs, "--output", "out", "--sheet", 0)
    assert "lit: kept" not in err and "adv: kept" in err
    code, _, err = call(*inputs, "--output", "out", "--kinds", "ent", "--seed", 3)
    assert (code, "of another build" in err or "another seed" in err) == (2, True)


def test_what_makes_no_pair_is_counted(call, tmp_path):
    rows = [
        {"sentence": "The miller was over the moon.", "label": "figurative"},
        {"sentence": "the miller was OVER the moon", "label": "figurative"},
        {"sentence": "A rocket flew over the moon.", "label": "figurative"},
        {"sentence": "A rocket flew over the moon.", "label": "literal"},
        {"sentence": "Over the moon!", "label": "figurative"},
        {"sentence": "He went home.", "label": "figurative", "idiom": "over the moon"},
        {"sentence": "He was over the moon and under the moon.", "label": "figurative"},
        {"sentence": f"He was over the moon {'and so on ' * 300}.", "label": "figurative"},
        {"sentence": "She saw red.", "label": "figurative", "idiom": "see red"},
        {"sentence": "She hit the roof.", "label": "figurative", "idiom": "hit the roof", "definition": "to get angry"},
        {"sentence": "She broke the ice.", "label": "figurative"},
    ]
    idioms = [{"idiom": "break the ice", "definition": text} for text in ("to begin", "To begin.", "to start talking")]
    code, _, err = call(
        *("--sentences", write_rows(tmp_path / "in.jsonl", rows), "--output", "out", "--kinds", "ent"),
        *("--definitions", write_rows(tmp_path / "meanings.jsonl", DEFINITIONS + idioms)),
    )
    assert code == 0, err
    refused = {
        row["row"]: row["reason"]
        for name in ("located", "ent")
        for row in read_rows(tmp_path / "out" / f"{name}_rejected.jsonl")
    }
    assert {row: reason[:30] for row, reason in refused.items()} == {
        2: "another row about the same idi",
        3: "the sentence is figurative in ",
        4: "the sentence is figurative in ",
        5: "the sentence consists only of ",
        6: "the idiom or word does not occ",
        7: "several idioms occur in the se",
        8: "the sentence has more than 200",
        9: "the idiom has no definition",
        11: "the idiom has several definiti",
    }
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| several idioms occur in the sentence; name one in 'idiom' | 1 |" in page
    assert "(1 have several)" in page
    made_of = [row["hypothesis"] for row in read_rows(tmp_path / "out" / "ent.jsonl")]
    assert made_of == ["The miller was very happy.", "She got angry."]


ROW = {"sentence": "He kicked the bucket.", "label": "figurative"}
BAD_INPUTS = {
    "no sentence": ([{"label": "literal"}], DEFINITIONS, (), r"in\.jsonl:1: no field 'sentence'"),
    "no label": ([{"sentence": "He sat."}], DEFINITIONS, (), "in.jsonl:1: no field 'label'"),
    "another label": ([ROW | {"label": "both"}], DEFINITIONS, (), "'label' is 'both'; it must be figurative or"),
    "an empty sentence": ([ROW | {"sentence": " … "}], DEFINITIONS, (), "in.jsonl:1: 'sentence' is empty"),
    "an idiom of articles": ([ROW | {"idiom": "the"}], DEFINITIONS, (), "'idiom' is 'the', which has no word"),
    "a span beyond the end": (
        [ROW | {"start": 3, "end": 99}], DEFINITIONS, (), "'start' and 'end' are '3' and '99'; they must be"),
    "half a span": ([ROW | {"start": 3}], DEFINITIONS, (), "'start' and 'end' are '3' and ''"),
    "a span in an unclean sentence": (
        [{"sentence": "He  kicked the bucket.", "label": "literal", "start": 4, "end": 21}], DEFINITIONS, (),
        "double spaces, so 'start' and 'end' are not positions in it; remove them"),
    "a metaphor without a literal word": (
        [{"sentence": "She devoured it.", "metaphor": "devoured"}], DEFINITIONS, (), "'replacement' is empty"),
    "an id twice": ([ROW | {"id": 7}, ROW | {"id": 7}], DEFINITIONS, (), "2: 'id' '7' is that of .*jsonl:1, too"),
    "no rows": ([], DEFINITIONS, (), r"in\.jsonl: it contains no sentences"),
    "no definitions": ([ROW], [], (), r"meanings\.jsonl: it contains no definitions"),
    "an empty definition": (
        [ROW], [{"idiom": "see red", "definition": "…"}], (), r"meanings\.jsonl:1: 'definition' is empty"),
    "an idiom without a word": ([ROW], [{"idiom": "one's", "definition": "own"}], (), "has no word to look for"),
    "nothing fits": ([ROW], [{"idiom": "see red", "definition": "to get angry"}], (), "no pair can be made from it"),
    "nothing fits, and why": (
        [ROW], [{"idiom": "see red", "definition": "to get angry"}], (),
        r"_rejected\.jsonl list the reasons, mostly: no idiom with a definition occurs in the sentence"),
    "a definition of another name": (
        [ROW], [{"idiom": "see red", "meaning": "x"}], (), "give its name with --definition_columns definition=NAME"),
    "definition columns": ([ROW], DEFINITIONS, ("--definition_columns", "x"), "--definition_columns has 'x'; write"),
    "a kind of another name": ([ROW], DEFINITIONS, ("--kinds", "ent,antt"), "no 'antt'; did you mean 'ant'"),
    "columns": ([ROW], DEFINITIONS, ("--columns", "text"), "write FIELD=NAME, such as sentence=text"),
    "a name without letters": ([ROW], DEFINITIONS, ("--name", "123"), "give a --name that begins with a letter"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_line(call, tmp_path, case):
    rows, definitions, options, message = BAD_INPUTS[case]
    code, _, err = call(
        *("--sentences", write_rows(tmp_path / "in.jsonl", rows), "--output", "out"),
        *("--definitions", write_rows(tmp_path / "meanings.jsonl", definitions), *options),
    )
    last = err.splitlines()[-1]
    assert (code, sum(line.startswith("figeval: ") for line in err.splitlines())) == (2, 1)
    assert re.search(message, last), last


def test_tables_with_columns_of_other_names(call, tmp_path):
    (tmp_path / "in.csv").write_text('usage;text\nfigurative;"Alas; he kicked the bucket."\n', encoding="utf-8")
    (tmp_path / "meanings.tsv").write_text("idiom\tsense\nkick the bucket\tto die\n", encoding="utf-8")
    code, _, err = call(
        *("--sentences", "in.csv", "--columns", "sentence=text,label=usage", "--output", "out"),
        *("--definitions", "meanings.tsv", "--definition_columns", "definition=sense"),
    )
    assert code == 0, err
    (row,) = read_rows(tmp_path / "out" / "ent.jsonl")
    assert row["hypothesis"] == "Alas; he died."
    assert "there are no pairs of the kind lit, so it has no task" in err


def test_texts_from_outside_are_cleaned(call, tmp_path):
    rows = [{"sentence": "He\u202e kicked\x1b[31m the\nbucket.", "label": "figurative"}]
    meanings = [{"idiom": "kick\x07 the bucket", "definition": "to\u2028 die"}]
    call(
        *("--sentences", write_rows(tmp_path / "in.jsonl", rows), "--output", "out", "--kinds", "ent"),
        *("--definitions", write_rows(tmp_path / "meanings.jsonl", meanings)),
    )
    (row,) = read_rows(tmp_path / "out" / "ent.jsonl")
    assert (row["premise"], row["hypothesis"]) == ("He kicked the bucket.", "He died.")


def test_a_missing_package_is_one_line(inputs, tmp_path, warm_start):
    (tmp_path / "lemminflect.py").write_text("raise ModuleNotFoundError(name='lemminflect')")
    done = figeval(
        "benchmark", "build", "impli-pairs", *inputs, "--output", "out", cwd=tmp_path, code=2, PYTHONPATH=str(tmp_path)
    )
    assert "pip install 'figeval[impli]'" in done.stderr
