"""Files with a word per line: which lines are words, which columns are read, and what is asked."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from figeval import DataContext, DataError, Harness

open_columns = Harness().readers.get("conll")
CUPT = """\
# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE
# source_sent_id = . . 1
# text = She took it into account at the 10 000 games.
1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t_\t_\t*
2\ttook\ttake\tVERB\t_\t_\t0\troot\t_\t_\t1:VID
3\tit\tit\tPRON\t_\t_\t2\tobj\t_\t_\t*
4\tinto\tinto\tADP\t_\t_\t5\tcase\t_\t_\t1
5\taccount\taccount\tNOUN\t_\t_\t2\tobl\t_\t_\t1;2:LVC.full
6-7\tatthe\t_\t_\t_\t_\t_\t_\t_\t_\t*
6\tat\tat\tADP\t_\t_\t8\tcase\t_\t_\t2
7\tthe\tthe\tDET\t_\t_\t8\tdet\t_\t_\t*
7.1\tghost\tghost\tNOUN\t_\t_\t_\t_\t_\t_\t*
8\t10 000\t10000\tNUM\t_\t_\t2\tobl\t_\t_\t*

# text = No.
1\tNo\tno\tINTJ\t_\t_\t0\troot\t_\t_\t*
"""
WORDS = "She took it into account at the 10 000", "No"
NER = "-DOCSTART- -X- -X- O\n\nHe PRP I-NP O\nleft VBD I-VP B-FIG\n\n-DOCSTART- -X- O O\n\nIt PRP I-NP O\n"


def read_columns(content: str | bytes, folder: Path, declared: str = "") -> tuple[list[tuple[str, str]], DataContext]:
    (folder / "words").write_bytes(content if isinstance(content, bytes) else content.encode())
    context = DataContext(folder=folder, fetch=lambda benchmark, path: folder / path)
    rows = open_columns(f"words{declared}", context)
    return [(" ".join(row["tokens"]), " ".join(row["tags"])) for row in rows], context


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("-DOCSTART-\tO\n\nHe\tO\nleft\tB-FIG\n", [("He left", "O B-FIG")]),
        ("He O\nleft   B-FIG\n\nIt O\n", [("He left", "O B-FIG"), ("It", "O")]),
        ("He PRP O\nleft VBD B-FIG\n", [("He left", "O B-FIG")]),
        ("1\tHe\tO\n2\tleft\tB-FIG\n\n1\tIt\tO\n", [("He left", "O B-FIG"), ("It", "O")]),
        ("# text = He left\nHe\tO\nleft\tB-FIG\n", [("He left", "O B-FIG")]),
        ("# text = He left\nHe O\n# B-FIG\n", [("He #", "O B-FIG")]),
        ("#begin document (x)\n#\tO\n#moon\tB-FIG\n# \tO\n\n#end document\n", [("# #moon #", "O B-FIG O")]),
        ("He\tO\rleft\tB-FIG\r\rIt\tO\r", [("He left", "O B-FIG"), ("It", "O")]),
        ("He\tO\r\nleft\tB-FIG\r\n\r\nIt\tO", [("He left", "O B-FIG"), ("It", "O")]),
        (gzip.compress(b"He\tO\nleft\tB-FIG\n", mtime=0), [("He left", "O B-FIG")]),
        ("He\tO\nleft\tB-FIG\n".encode("utf-16"), [("He left", "O B-FIG")]),
    ],
)
def test_read(content: str | bytes, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    assert read_columns(content, tmp_path)[0] == rows


def test_codes_of_expressions(tmp_path: Path) -> None:
    """`took … into account` has a gap, and `account` also belongs to a second expression."""
    rows, context = read_columns(CUPT, tmp_path)
    assert rows == [(WORDS[0], "O B-VID O B-VID I-VID B-LVC.full O O O"), (WORDS[1], "O")]
    remark = context.notes.pop("remark")
    assert "expressions with other words in between (1)" in remark
    assert context.notes == {
        "left_out_lines": 2,
        "split_words": 1,
        "words_of_several_expressions": 1,
        "expressions_in_parts": 1,
    }


@pytest.mark.parametrize(
    ("content", "declared", "tags"),
    [
        (CUPT, "?word=FORM&tag=UPOS", "PRON VERB PRON ADP NOUN ADP DET NUM NUM"),
        (CUPT.partition("\n")[2], "?word=2&tag=11", "O B-VID O B-VID I-VID B-LVC.full O O O"),
        (NER, "?tag=4", "O B-FIG"),
        (NER, "?word=1&tag=3", "I-NP I-VP"),
        ("O He\nB-FIG left\n", "?word=2&tag=1", "O B-FIG"),
        ("He 1 0\nleft 2 1\n", "?tag=3", "0 1"),
    ],
)
def test_declared_columns(content: str, declared: str, tags: str, tmp_path: Path) -> None:
    assert read_columns(content, tmp_path, declared)[0][0][1] == tags


@pytest.mark.parametrize(
    ("content", "declared", "message"),
    [
        (NER, "", r"of its 4 columns .*, 3 and 4 hold tags; name .* words\?word=1&tag=4$"),
        ("He he x\nleft leave y\n", "", r"none surely holds the tags; .* words\?word=1&tag=3$"),
        (CUPT.partition("\n")[2], "", r"none surely holds the tags; .* words\?word=2&tag=11$"),
        (CUPT.replace("\t1:VID", "\t_").replace("\t1\n", "\t_\n"), "", "words:4: .*'took' is not annotated"),
        (CUPT.replace("\t1:VID", "\t1"), "", "words:4: .*'took' has the code '1', whose kind no word says"),
        (CUPT, "?tag=MWE", "tag=MWE is none of its 11 columns, counted from 1; its columns are ID, FORM"),
        (NER, "?tag=5", "tag=5 is none of its 4 columns"),
        (NER, "?label=4", "the columns that can be named are word and tag, not 'label'"),
        (NER, "?4", "the columns that can be named are word and tag, not '4'"),
        ("He O\n# text = left\nleft O\n", "", "words:2: a comment inside a sentence"),
        ("He a O\nleft O\n", "", "words:2: 'left O' is not a row of 3 columns"),
        ("He O\nleft\n", "", "words:2: 'left' is not a word and its tag, separated by blanks"),
        ("It\tO\nHe\n", "", "words:2: .*is not a word and its tag"),
        ("It\tO\nHe\t\n", "", "words:2: .*is not a word and its tag"),
        ("It\tO\nHe\tO\tO\n", "", "words:2: .*is not a word and its tag"),
        ("It\tO\ncold feet\tO\n", "", "words:2: .*contains a space; give each of its parts a line"),
        ("He\tO\nleft B-FIG\n", "", "words:2: 'left B-FIG' is not a word and its tag, separated by one tab"),
    ],
)
def test_refused(content: str, declared: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_columns(content, tmp_path, declared)


def test_ids_are_the_lines_where_sentences_begin_and_blanks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("He \tO\nsaw\tB-FIG\nred\tI-FIG \n\n\nIt\tO\n\tO\n\n", encoding="utf-8")
    context = DataContext(folder=tmp_path, fetch=lambda benchmark, path: tmp_path / path)
    assert list(open_columns("words.tsv", context)) == [
        {"id": "1", "tokens": ["He", "saw", "red"], "tags": ["O", "B-FIG", "I-FIG"]},
        {"id": "6", "tokens": ["It"], "tags": ["O"]},
    ]
    assert context.notes == {"stripped_words": 1, "left_out_words": 1}
