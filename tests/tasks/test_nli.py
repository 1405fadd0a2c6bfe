"""NLI sets: the readers on files of our own, what the union keeps out, and counts on the real files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from figeval import DataError, Harness
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop
from tests.sources import Row, read_rows

ROOT = Path(__file__).parents[2]
PARTS = json.loads((ROOT / "tests" / "golden" / "tasks" / "nli.json").read_text(encoding="utf-8"))["parts"]
SIDES = ("s1", "s2", "labels")
LABELS = ("entailment", "neutral", "contradiction")

SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tsentence_A_dataset\tSemEval_set\r\n"
MED = "genre\tsentence1\tsentence2\tgold_label\n"
TAXI = "prem\thyp\tlabel\tannotated_label\tnegation_logic\tworld_knowledge\tgeneral_q2\tpairID\tgenre\n"
CAD = "sentence1\tsentence2\tgold_label\n"
CONJ = "\ufeffPremise\tHypothesis\tLabel\n"
FILES = {
    "mnli_sample/mnli_train.csv": "",
    "mnli_sample/mnli_validation.csv": "",
    "snli_sample/train.csv": "",
    "snli_sample/test.csv": "",
    **{f"esnli/{side}.{part}": "" for part in ("dev", "test") for side in SIDES},
    **{f"cad_nli/all_combined/{part}.tsv": CAD for part in ("train", "dev", "test")},
    "sick/SICK.txt": SICK,
    "conjnli/adversarial_train_15k.tsv": CONJ,
    "conjnli/conj_dev.tsv": CONJ,
    "med/MED.tsv": MED,
    "taxinli/taxinli10k.tsv": TAXI,
    **{f"mnli_hard/MNLI{kind}HardWithHardTest/{side}.test": "" for kind in ("Matched", "Mismatched")
       for side in SIDES},
    "mnli_hard/snli_1.0_test_hard.jsonl": "",
}  # fmt: skip

Small = Callable[[dict[str, str]], Path]


def multinli_line(premise: str, hypothesis: str, label: str) -> str:
    """A line of the MultiNLI sample."""
    cell = f'For the statement, ""{premise}"", does the hypothesis ""{hypothesis}"" represent'
    return f'"{cell} entailment, contradiction, or neutrality?",{label},mnli\n'


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """`small({file: lines})`: a folder of all files, which have only a header but for what is added to them."""

    def make(added: dict[str, str]) -> Path:
        assert set(added) <= set(FILES)
        for file, header in FILES.items():
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes((header + added.get(file, "")).encode())
        return tmp_path

    return make


def texts(read: list[Row]) -> list[tuple[str, str, str]]:
    return [(row["premise"], row["hypothesis"], row["label"]) for row in read]


# ---- one file after the other ---------------------------------------------------------------------------------------


def test_the_files_that_are_read_are_those_that_are_listed(small: Small) -> None:
    folder, paths = small({}), set()

    def fetch(_benchmark: str, path: str) -> Path:
        paths.add(path)
        return folder / path

    harness = Harness(fetch=fetch)
    for task in harness.catalogue.expand(["nli"]):
        assert not [row for split in task.data for row in harness.rows(task, split)]
    listed = re.findall(r"^  - path: (.*)$", (ROOT / "tasks" / "nli" / "sources.yaml").read_text("utf-8"), re.M)
    assert set(listed) == set(FILES) == paths


def test_a_quotation_mark_in_a_table_is_a_character_like_any_other(small: Small) -> None:
    folder = small(
        {
            "cad_nli/all_combined/dev.tsv": "He left, or  stayed\tA\tneutral\n",
            "conjnli/conj_dev.tsv": '"He left, or stayed.\t He said "no" \tneutral\nA\tB\tentailment\n',
        }
    )
    first, second = read_rows("nli:conj_dev", folder)
    (same_premise,) = read_rows("nli:cad_dev", folder)
    assert first == {
        "id": "conjnli/conj_dev:1",
        "premise": '"He left, or stayed.',
        "hypothesis": ' He said "no" ',
        "label": "neutral",
        "corpus": "conj",
        "meta": {"corpus": "conj", "premise": same_premise["meta"]["premise"]},
    }
    assert second["id"] == "conjnli/conj_dev:2"


def test_the_questions_of_the_multinli_sample_are_taken_apart_and_repeats_left_out(small: Small) -> None:
    lines = [multinli_line('It is ""so""', "It was, was it\n", "neutral"), multinli_line("A", "B", "entailment")]
    folder = small({"mnli_sample/mnli_train.csv": "Question,Answer,Origin\n" + lines[0] * 2 + lines[1]})
    read = read_rows("nli:mnli_train", folder)
    assert texts(read) == [('It is "so"', "It was, was it\n", "neutral"), ("A", "B", "entailment")]
    assert [row["id"] for row in read] == ["mnli_sample/mnli_train:1", "mnli_sample/mnli_train:3"]


def test_numbers_stand_for_labels_in_the_snli_sample(small: Small) -> None:
    folder = small({"snli_sample/test.csv": "1\t1\tA\tn\n2\t2\tA\tc\n3\t3\tA\te\n"})
    assert texts(read_rows("nli:snli_test", folder)) == [
        ("A", "n", "neutral"),
        ("A", "c", "contradiction"),
        ("A", "e", "entailment"),
    ]


def test_files_side_by_side_with_and_without_a_last_newline(small: Small) -> None:
    sides = {"esnli/s1.dev": "A . \nB .", "esnli/s2.dev": "C . \nD .\n", "esnli/labels.dev": "neutral\nentailment"}
    assert texts(read_rows("nli:esnli_dev", small(sides))) == [
        ("A . ", "C . ", "neutral"),
        ("B .", "D .", "entailment"),
    ]
    with pytest.raises(DataError, match=r"different numbers of lines: .*s1\.dev 2, .*s2\.dev 1"):
        read_rows("nli:esnli_dev", small(sides | {"esnli/s2.dev": "C .\n"}))


def test_sick_in_the_parts_of_semeval(small: Small) -> None:
    lines = "1\tA\tB\tNEUTRAL\tFLICKR\tTRAIN\r\n2\tC\tD\tENTAILMENT\tSEMEVAL\tTEST\r\n"
    folder = small({"sick/SICK.txt": lines})
    (row,) = read_rows("nli:sick_test", folder)
    assert (row["id"], row["label"], row["meta"]["genre"]) == ("sick/SICK:2", "entailment", "semeval")
    assert [row["id"] for row in read_rows("nli:sick_train", folder)] == ["sick/SICK:1"]
    assert not read_rows("nli:sick_trial", folder)


def test_what_med_and_taxinli_say_of_a_pair(small: Small) -> None:
    folder = small(
        {
            "med/MED.tsv": "paper:GLUE:upward_monotone:World knowledge\tA\tB\tneutral\n",
            "taxinli/taxinli10k.tsv": "A\tB\tcontradiction\t-\t1\t0\t1.0\t7c\tslate\n",
        }
    )
    (med,), (taxi,) = read_rows("nli:med", folder), read_rows("nli:taxi", folder)
    assert (med["meta"]["genre"], med["meta"]["category"]) == ("paper", "upward")
    assert {key: value for key, value in taxi["meta"].items() if key != "premise"} == {
        "corpus": "taxi",
        "genre": "slate",
        "negation": "yes",
        "world": None,
    }


@pytest.mark.parametrize(
    ("part", "file", "added", "complaint"),
    [
        ("cad_dev", "cad_nli/all_combined/dev.tsv", "A\tB\tneutral\nA\tB\n", r"dev\.tsv:3: 2 values for 3 columns"),
        ("cad_dev", "cad_nli/all_combined/dev.tsv", "A\tB\tmaybe\n", r"dev\.tsv:2: 'maybe' is not a label"),
        ("conj_dev", "conjnli/conj_dev.tsv", "A\tB\t\n", r"conj_dev\.tsv:2: '' is not a label"),
        ("snli_test", "snli_sample/test.csv", "4\t4\tA\tB\n", r"test\.csv:1: '4' is not a label"),
        (
            "mnli_train",
            "mnli_sample/mnli_train.csv",
            "Question\nWhat?,neutral,mnli\n",
            r"train\.csv:2: expected a ques",
        ),
        (
            "mnli_train",
            "mnli_sample/mnli_train.csv",
            "Question\n" + multinli_line('A"", does the hypothesis ""B', "C", "neutral"),
            r"train\.csv:2: expected a question",
        ),
        ("snli_hard", "mnli_hard/snli_1.0_test_hard.jsonl", '{"sentence1": "A"}\n', r"hard\.jsonl:1: sentence1, sent"),
        ("snli_hard", "mnli_hard/snli_1.0_test_hard.jsonl", "{}\n{\n", r"hard\.jsonl:1: sentence1"),
    ],
)
def test_a_broken_row_is_named(part: str, file: str, added: str, complaint: str, small: Small) -> None:
    with pytest.raises(DataError, match=complaint):
        read_rows(f"nli:{part}", small({file: added}))


def test_unknown_parts_get_near_names(small: Small) -> None:
    with pytest.raises(DataError, match=r"no part 'mnli_tain'; did you mean .*'mnli_train'"):
        read_rows("nli:mnli_tain", small({}))


# ---- what is trained on ---------------------------------------------------------------------------------------------


def ids_of(name: str, folder: Path) -> list[str]:
    return [row["id"] for row in read_rows(f"nli:{name}", folder)]


def test_train_leaves_out_test_pairs_repeats_and_two_labels(small: Small) -> None:
    train = "3\t3\tA man sleeps.\tHe rests.\n1\t1\tA man sleeps.\tHe didn't go.\n2\t2\tA dog.\tA cat.\n" * 2
    folder = small(
        {
            "snli_sample/train.csv": train + "1\t1\tA bird.\tIt sings.\n1\t1\tA bird.\t...\n",
            "conjnli/conj_dev.tsv": "a man sleeps .\the did n't go .\tentailment\n",
            "cad_nli/all_combined/train.tsv": "A dog\tA cat\tneutral\n",
            "cad_nli/all_combined/dev.tsv": "A bird\tIt sings\tneutral\n",
        }
    )
    assert ids_of("train", folder) == ["snli_sample/train:1"]


def test_dev_is_balanced_and_its_premises_are_not_trained_on(small: Small) -> None:
    pairs = [(f"premise {number}", label[0], label) for number in range(300) for label in LABELS]
    sides = {
        f"esnli/{side}.dev": "\n".join(column) for side, column in zip(SIDES, zip(*pairs, strict=True), strict=True)
    }
    folder = small(sides | {"snli_sample/train.csv": "3\t3\tPremise 0\tnew\n3\t3\tPremise 1\tnew\n"})
    dev, train = read_rows("nli:dev", folder), read_rows("nli:train", folder)
    assert Counter(row["label"] for row in dev) == dict.fromkeys(LABELS, 250)
    held = {row["meta"]["premise"] for row in dev}
    assert len(held) == 250, "premises go as a whole"
    assert not held & {row["meta"]["premise"] for row in train}
    assert len(train) >= 150
    assert [row["id"] for row in dev] == ids_of("dev", folder)


# ---- the real files -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", PARTS, ids=[case["part"] for case in PARTS])
def test_real_counts(case: Row, real_data: str) -> None:
    read = read_rows(f"nli:{case['part']}")
    label_counts = Counter(row["label"] for row in read)
    assert [label_counts[label] for label in LABELS] == case["rows"]
    assert len({row["meta"]["premise"] for row in read}) == case["premises"]
    assert len({row["id"] for row in read}) == len(read)


def fold_text(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def pairs(rows: Iterable[Row]) -> set[tuple[str, str]]:
    return {(fold_text(row["premise"]), fold_text(row["hypothesis"])) for row in rows}


@pytest.mark.slow
def test_real_training_pairs_are_in_no_test_or_validation_set(real_data: str) -> None:
    train, dev = pairs(read_rows("nli:train")), pairs(read_rows("nli:dev"))
    assert not train & dev
    assert not {premise for premise, _ in train} & {premise for premise, _ in dev}
    tasks = Harness().catalogue.expand(["nli"])
    sources = {"impli:all", *(task.data["test"] for task in tasks)}
    assert not {source: shared for source in sources if (shared := pairs(read_rows(source)) & (train | dev))}
    validation = {task.data["validation"] for task in tasks if "validation" in task.data}
    assert len(sources) == 12 and len(validation) == 2
    assert not {source: shared for source in validation if (shared := pairs(read_rows(source)) & train)}


def test_real_numbers_of_the_snli_sample_are_read_aright(real_data: str) -> None:
    """Pairs that are in another set have the same label there, all but one."""

    def labels(part: str) -> dict[tuple[str, str], str]:
        rows = read_rows(f"nli:{part}")
        return {(fold_text(row["premise"]), fold_text(row["hypothesis"])): row["label"] for row in rows}

    sample, counts_of_cad = labels("snli_train"), labels("cad_train")
    both = sample.keys() & counts_of_cad.keys()
    assert (len(both), sum(sample[pair] == counts_of_cad[pair] for pair in both)) == (52, 51)


@pytest.mark.slow
def test_a_three_way_head_answers(real_data: str, tmp_path: Path, cli: Cli) -> None:
    names = dict(enumerate(("CONTRADICTION", "NEUTRAL", "ENTAILMENT")))
    head = Workshop(tmp_path)("bert", "ForSequenceClassification", id2label=names)
    tasks = ("--tasks", "nli_snli_hard,nli_med", "--limit", "20", "--by", "category")
    outcome = cli("run", *tasks, "--model", f"pairs:{head}", "--device", "cpu", "--output_path", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    hard, med = record["tasks"]
    assert hard["settings"]["labels"] == list(LABELS)
    assert med["settings"]["labels"] == ["entailment", "non-entailment"]
    assert [score["metric"] for score in hard["scores"]] == ["acc", "macro_f1"]
    assert {group["value"] for group in med["breakdowns"][0]["groups"]} <= {"upward", "downward", "non"}
    first = json.loads((tmp_path / "run" / "predictions" / "nli_snli_hard.jsonl").read_text().splitlines()[0])
    assert set(first["meta"]) == {"corpus", "premise"}
    assert len(first["cluster"]) == 16, "a key, not the text"
