"""Measure how well the answer extractor reads its corpus, compared with lm-eval's filter for multiple choice.

    python bench/extractor.py
    python bench/extractor.py REPLIES.jsonl

The script prints, for choices and labels, expected statuses against extracted ones (an answer with the wrong index is
counted separately), how often each rule decided, the time per reply, and the time per character on inputs designed to
be slow. The peer is lm-eval's `MultiChoiceRegexFilter`, ignoring case and punctuation, with three patterns: that of
most of its tasks (a letter in brackets), that of MMLU-Pro ("answer is (B)") and the most lenient one (any capital),
each with the first and the last match. Since it has no statuses, two shares are given: the share of replies that commit
to an option for which it finds this option, and the share of other replies for which it finds one.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from figeval.answers.extract import Extracted, extract_choice, extract_label
from figeval.answers.quotes import locate, quotation
from figeval.prompts import LETTERS, PromptContext
from figeval.task_types.spans import SpanExample, read_quote
from figeval.types import Reply, Span

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "task_types"
STATUSES = ("ok", "ambiguous", "unparseable", "refusal", "empty", "truncated")
PATTERNS = {"(B)": r"(\([A-Z]\))", "answer is B": r"answer is \(?([A-J])\)?", "any capital": r"\b([A-Z])\b"}
Case = dict[str, Any]
VOCABULARY = json.loads((GOLDEN / "answers_choice.json").read_text(encoding="utf-8"))["vocabulary"]  # of proverb tasks


def load(kind: str) -> list[Case]:
    """Return the cases of one corpus, each with its options and letters."""
    corpus = json.loads((GOLDEN / f"answers_{kind}.json").read_text(encoding="utf-8"))
    cases = [{"options": corpus.get("options", ()), **case} for case in corpus["cases"]]
    return [{"letters": [chr(ord("A") + i) for i in range(len(case["options"]))], **case} for case in cases]


def extract(case: Case) -> Extracted:
    """Read a case with figeval's extractor."""
    reply = Reply(text=case["reply"], finish=case.get("finish", "stop"), reasoning=case.get("reasoning", ""))
    if "words" in case:
        return extract_label(reply, case["words"])
    return extract_choice(reply, case["options"], case["letters"], VOCABULARY)


def confusion(cases: Iterable[Case]) -> Counter[tuple[str, str]]:
    """Count pairs of expected and extracted status; an extracted "ok" with the wrong index counts as "wrong"."""
    pairs: Counter[tuple[str, str]] = Counter()
    for case in cases:
        extracted, expected = extract(case), case["expect"]
        has_wrong_index = extracted.status == expected["status"] == "ok" and extracted.index != expected["index"]
        pairs[expected["status"], "wrong" if has_wrong_index else extracted.status] += 1
    return pairs


def peer_index(case: Case, pattern: str, group_select: int) -> int | None:
    """Return the option that lm-eval's filter finds, or None."""
    from lm_eval.filters.extraction import MultiChoiceRegexFilter

    filtered = MultiChoiceRegexFilter(pattern, group_select, ignore_case=True, ignore_punctuation=True).apply(
        [[case["reply"]]], [{"choices": list(case["options"])}]
    )
    letter = next(iter(filtered))[0].strip("()")
    return case["letters"].index(letter) if letter in case["letters"] else None


def print_confusion(kind: str, cases: list[Case]) -> None:
    """Print a table with a row per expected status and a column per extracted one."""
    pairs = confusion(cases)
    columns = ("ok", "wrong", *STATUSES[1:])
    print(f"\n{kind}: {len(cases)} replies\n{'expected':12}" + "".join(f"{name:>12}" for name in columns))
    for expected in STATUSES:
        print(f"{expected:12}" + "".join(f"{pairs[expected, name] or '·':>12}" for name in columns))


def print_rules(cases: list[Case]) -> None:
    """Print how often each rule decided, and the time per reply."""
    started = time.perf_counter()
    rules = Counter(extract(case).rule for case in cases)
    milliseconds = 1_000 * (time.perf_counter() - started) / len(cases)
    print(
        f"\nrules ({milliseconds:.1f} ms per reply): "
        + ", ".join(f"{rule} {count}" for rule, count in rules.most_common())
    )


def print_peer(cases: list[Case]) -> None:
    """Print the results of figeval and of lm-eval on the same replies."""
    committed = [case for case in cases if case["expect"]["status"] == "ok"]
    uncommitted = [case for case in cases if case["expect"]["status"] != "ok"]
    readers: dict[str, Callable[[Case], int | None]] = {"figeval": lambda case: extract(case).index}
    for name, pattern in PATTERNS.items():
        readers[f"lm-eval, {name}, first"] = partial(peer_index, pattern=pattern, group_select=0)
        readers[f"lm-eval, {name}, last"] = partial(peer_index, pattern=pattern, group_select=-1)
    print(f"\n{'':32}{'right of ' + str(len(committed)):>16}{'wrong':>8}{'invented of ' + str(len(uncommitted)):>18}")
    for name, read in readers.items():
        right = sum(read(case) == case["expect"]["index"] for case in committed)
        missed = sum(read(case) is None for case in committed)
        invented = sum(read(case) is not None for case in uncommitted)
        print(
            f"{name:32}{right:>9} {right / len(committed):>6.1%}{len(committed) - right - missed:>8}"
            f"{invented:>11} {invented / len(uncommitted):>6.1%}"
        )


REAL = Path(__file__).with_name("replies.json")
SAMPLES = {
    1: "labelled before the rules were mended",
    2: "labelled after that, by the same reader",
    3: "drawn after that, labelled by two others",
}


def read_again(row: Case) -> Case:
    """Read a reply of `replies.json` again, given its text."""
    reply = Reply(text=row["reply"], finish=row["finish"])
    if row["route"] == "by_json":
        example = SpanExample(id=row["id"], text=row["text"], given=row["given"], known=row["known"], gold=None)
        quote = read_quote(example, PromptContext(lambda *_: ""), reply)
        span = quote.value if isinstance(quote.value, Span) and quote.status == "ok" else None
        return {"status": quote.status} | ({"span": [span.start, span.end]} if span else {})
    extracted = extract({**row, "letters": LETTERS[: len(row["options"])]} if "options" in row else row)
    return {"status": extracted.status} | ({} if extracted.index is None else {"index": extracted.index})


def answer_of(verdict: Case) -> Any:
    """Return the option, label or span of a verdict, or None if there is none."""
    return verdict.get("index", verdict.get("span"))


def count_readings(rows: list[Case]) -> tuple[int, int, int, int, int]:
    """Count replies: read correctly, in total, answers found, answers, and others that were taken for an answer."""
    right = [answer_of(row["read"]) == answer_of(row["label"]) for row in rows]
    answers = [answer_of(row["label"]) is not None for row in rows]
    answers_found = sum(is_right and is_answer for is_right, is_answer in zip(right, answers, strict=True))
    return sum(right), len(rows), answers_found, sum(answers), len(rows) - sum(answers) - (sum(right) - answers_found)


def print_real(texts: Path | None) -> None:
    """Print how often the extractor finds the answers of SmolLM2's replies, by the labels in `replies.json`.

    The verdicts stored there were computed from all replies. Replies whose texts are available (in that file, or as
    `{"reply", …}` lines in `texts`) are read again, and differences are printed.
    """
    stored = json.loads(REAL.read_text(encoding="utf-8"))
    rows = stored["replies"]
    if texts is not None:
        replies = [json.loads(line) for line in texts.read_text(encoding="utf-8").splitlines()]
        texts_by_digest = {hashlib.sha256(reply["reply"].encode()).hexdigest(): reply for reply in replies}
        rows = [{**texts_by_digest.get(row["reply_sha256"], {}), **row} for row in rows]
    print(f"\nreplies of SmolLM2-135M-Instruct, read by version {stored['extractor']} of the extractor:")
    for sample, name in SAMPLES.items():
        right, of, answers_found, answers, invented = count_readings([row for row in rows if row["sample"] == sample])
        print(
            f"  sample {sample}, {name}: right {right} of {of} ({right / of:.1%}); "
            f"of {answers} answers {answers_found} found, of {of - answers} others {invented} taken for an answer"
        )
    at_hand = [row for row in rows if "reply" in row and (row["route"] != "by_letter" or "options" in row)]
    changed = [row for row in at_hand if read_again(row) != row["read"]]
    print(f"  {len(at_hand)} read again, {len(changed)} differently")
    for row in changed:
        print(f"    {row['task']} {row['id']}: {row['read']} → {read_again(row)}")


REPEATED = (
    *(
        "A, ",
        "A\n",
        "(A) ",
        "A) B) ",
        "A and B ",
        "not A, ",
        "The answer is A. ",
        "answer is ",
        "Answer: ",
        "Yes, ",
        "wait ",
    ),
    *(" ", "\n", "-", "*", "{", "[", '"', "'a' ", "“", "<think>", "<a ", "option 2 ", "the bucket ", '{"quote": "a'),
)
SHORT, LONG, HUGE = 2_000, 16_000, 10_000_000  # characters


def print_speed() -> None:
    """Print the CPU microseconds per character of the slowest repeated piece, for replies of three lengths."""
    text = "He kicked the bucket into the corner and the bucket rolled back. " * 500
    options, words = ["a patched boat floats", "the roof leaked", "no smoke"], [("Yes",), ("No", "Maybe")]
    example = SpanExample(id="1", text=text[:2_000], given="the roof", known="the roof leaked", gold=None)
    readers: dict[str, Callable[[str], Any]] = {
        "choice": lambda reply: extract_choice(Reply(text=reply), options, "ABC"),
        "label": lambda reply: extract_label(Reply(text=reply), words),
        "quotation": lambda reply: quotation(Reply(text=reply), example),
        "locate": lambda reply: locate(reply, text),
    }
    print("\nµs per character, the slowest piece:")
    for name, read in readers.items():
        read("It is A, the bucket.")
        row = []
        for length in (SHORT, LONG, HUGE):
            if length == HUGE and name == "locate":
                continue
            costs = {}
            for piece in REPEATED if length < HUGE else REPEATED[:1]:
                reply = (piece * (length // len(piece)))[:length] + "x"
                started = time.process_time()
                read(reply)
                costs[piece] = 1e6 * (time.process_time() - started) / length
            piece = max(costs, key=costs.__getitem__)
            row.append(f"{length:>10,} characters {costs[piece]:5.1f} ({piece!r})")
        print(f"{name:10}" + "".join(row))


def main() -> None:
    """Print every table."""
    print_real(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    choices, labels = load("choice"), load("label")
    print_confusion("choice", choices)
    print_confusion("label", labels)
    print_rules(choices + labels)
    print_peer(choices)
    print_speed()


if __name__ == "__main__":
    main()
