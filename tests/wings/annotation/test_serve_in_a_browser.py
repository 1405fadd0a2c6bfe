"""The page of `figeval annotate serve` in a real browser: keys, mouse, reload, two tabs, hostile texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import figeval
from tests.devtools import Page, browsing
from tests.wings.annotation.served import DESCRIBED_SCALES, MEANING, Server, export_items, export_texts, serving

pytestmark = pytest.mark.system

HOSTILE_TEXT = (
    "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>\u202egnirts\x1b[31m"
)
WORK_IS_SHOWN = "!document.querySelector('#work').hidden"
STATUS_IS_SAVED = "document.querySelector('#status').textContent.endsWith('saved')"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browsing(tmp_path / "profile") as opened:
        yield opened


def start_work(page: Page, server: Server, name: str) -> None:
    page.open(server.address)
    page.until("!document.querySelector('#start').hidden && document.activeElement.id === 'name'")
    for letter in name:
        page.press(letter)
    page.press("Enter")
    page.until(WORK_IS_SHOWN)


def answers(folder: Path, name: str) -> list[tuple[str, str, str]]:
    lines = (folder / f"answers_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["item"], row["criterion"], row["label"]) for row in map(json.loads, lines)]


def test_keys_answer_and_a_reload_continues(page: Page, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one", "two", "three")
    with serving(folder) as server:
        order = [item["item"] for item in server.items("kim")["items"]]
        start_work(page, server, "kim")
        assert "Item 1 of 3" in page.text
        page.press("4")
        page.until("document.querySelector('#status').textContent === 'fluency: 4, saved'")
        page.press("2")
        page.until("document.querySelector('#status').textContent === 'coherent: yes, saved'")
        page.press("ArrowRight")
        assert "Item 2 of 3" in page.text
        assert "Skip" in page.text
        page.press("6")  # not on the scale, so no key
        page.press("ArrowRight")
        page.press("ArrowLeft")
        assert "Item 2 of 3" in page.text
        assert answers(folder, "kim") == [(order[0], "fluency", "4"), (order[0], "coherent", "yes")]

        page.call("Page.reload")
        page.until(f"document.querySelector('#work') && {WORK_IS_SHOWN}")
        assert "Item 2 of 3" in page.text
        assert "1 answered · kim" in page.text
        page.press("ArrowLeft")
        assert page.script("[...document.querySelectorAll('input:checked')].map((one) => one.value)") == ["4", "yes"]
        page.click(".clear")
        page.until("document.querySelector('#status').textContent === 'fluency: no answer, saved'")
        assert answers(folder, "kim")[-1] == (order[0], "fluency", "")
        assert page.violations == []


def test_the_active_question_is_in_sight_and_words_have_their_initials(page: Page, tmp_path: Path) -> None:
    scales = {f"question {number}": "yes/no" for number in range(12)}
    folder = export_items(tmp_path / "items", "one", "two", scales=scales)
    in_sight = (
        "(() => { const box = document.querySelector('fieldset.current').getBoundingClientRect();"
        " return box.top >= 0 && box.bottom <= innerHeight; })()"
    )
    with serving(folder, "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        assert page.script("scrollY") == 0, "a new text is read from its beginning"
        for number in range(11):
            page.press("yn"[number % 2])
            page.until(in_sight)
        assert page.script("scrollY") > 0
        page.until("document.querySelector('#status').textContent === 'question 10: yes, saved'")
        item = server.items("kim")["items"][0]
        assert [item["answers"][name] for name in list(scales)[:11]] == [("yes", "no")[n % 2] for n in range(11)]
        page.call("Page.reload")
        page.until(f"document.querySelector('#work') && {WORK_IS_SHOWN}")
        page.until(in_sight)

        page.press("c")
        page.until("document.activeElement.id === 'comment'")
        page.script(f"document.querySelector('#comment').value = {json.dumps(HOSTILE_TEXT)}")
        page.press("y")  # is typed, and no answer
        page.press("Escape")
        page.until("document.querySelector('#status').textContent === 'comment, saved'")
        assert answers(folder, "kim")[-1][1] == "comment"
        assert "\x1b" not in answers(folder, "kim")[-1][2]
        page.press("?")
        assert "write a comment" in page.text
        assert page.script("document.title") == "Annotation"
        assert page.violations == []


def test_the_mouse_answers_until_all_is_done(page: Page, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one", "two")
    with serving(folder, "--annotator", "lou") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        for number in (1, 2):
            page.click("input[name=criterion-0][value='3']")
            page.until(f"document.querySelector('#status').textContent === 'fluency: 3, saved' && {STATUS_IS_SAVED}")
            page.click("input[name=criterion-1][value=no]")
            page.until(f"document.querySelector('#progress').value === {number}")
            if number == 1:
                page.click("#next")
        assert "You have answered all items" in page.text
        assert server.stop().startswith("lou: 4 judgements\n")


def test_two_tabs_agree_in_the_end(page: Page, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one")
    with serving(folder, "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.press("4")
        page.until(STATUS_IS_SAVED)
        assert server.answer("kim", "1", "fluency", "2")[0] == 200  # the other tab
        page.script("dispatchEvent(new Event('focus'))")
        page.until("document.querySelector('input:checked')?.value === '2'")


def test_instructions_are_open_first_and_never_away(page: Page, tmp_path: Path) -> None:
    text = f"Read slowly.\n**Then judge.** {HOSTILE_TEXT}"
    is_open = "document.querySelector('#instructions').open"
    with serving(export_items(tmp_path / "items", "one", "two", instructions=text, scales=DESCRIBED_SCALES)) as server:
        start_work(page, server, "kim")
        assert page.script(is_open)
        assert "Read slowly.\n**Then judge.** <img" in page.text
        assert MEANING in page.text
        described = "document.getElementById(document.querySelector('fieldset').getAttribute('aria-describedby'))"
        assert page.script(f"{described}.textContent") == MEANING
        assert page.script("document.querySelectorAll('fieldset')[1].getAttribute('aria-describedby')") is None
        page.press("ArrowRight")
        assert not page.script(is_open)
        page.click("#instructions summary")
        assert page.script(is_open)
        page.press("ArrowLeft")
        assert page.script(is_open), "who opens them again keeps them open"
        assert page.script("document.querySelectorAll('img, #instructions-text script').length") == 0
        assert page.script("document.title") == "Annotation"
        page.look(tmp_path / "shot.png", width=390)
        assert page.script("document.documentElement.scrollWidth <= innerWidth")
        assert page.violations == []


def test_long_texts_are_shown_as_a_whole(page: Page, tmp_path: Path) -> None:
    """Phones show no scroll bar, so a box that scrolls within the page would look like the end of the text."""
    long_text = "\n".join(f"Rule {number}." for number in range(60))
    text = "One sentence after the other. " * 200
    with serving(export_items(tmp_path / "items", text, instructions=long_text), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.look(tmp_path / "shot.png", width=400)
        boxes = "[...document.querySelectorAll('#instructions-text, #texts p')]"
        assert page.script(f"{boxes}.length") == 3
        assert page.script(f"{boxes}.every((box) => box.scrollHeight <= box.clientHeight)")


def test_an_answer_moves_nothing_on_a_phone(page: Page, tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", "one", scales=DESCRIBED_SCALES), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.look(tmp_path / "before.png", width=400)
        height = "document.querySelector('#answers').getBoundingClientRect().height"
        before = page.script(height)
        page.press("4")
        page.until(STATUS_IS_SAVED)
        assert page.script(height) == before
        page.click(".clear")
        page.until("document.querySelector('#status').textContent === 'fluency: no answer, saved'")


def test_without_instructions_there_is_no_panel(page: Page, tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", "one"), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        assert page.script("document.querySelector('#instructions').hidden")
        assert page.script("document.querySelectorAll('.description').length") == 0


def test_hostile_texts_are_text(page: Page, tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", HOSTILE_TEXT, to="label_studio"), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        assert "<script>document.title='hacked'</script>⟨U+202E⟩gnirts␛[31m" in page.text
        assert page.script("document.querySelectorAll('img, article script').length") == 0
        assert page.script("document.title") == "Annotation"
        assert page.violations == []


def test_nothing_is_called_saved_that_is_not(page: Page, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one")
    with serving(folder, "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        server.kill()
        page.press("4")
        page.until("document.querySelector('#alert').textContent.startsWith('Not saved. The server does not answer.')")
        assert page.script("document.querySelector('input:checked')") is None
    with serving(folder) as server:
        page.open(server.address.split("#")[0])
        page.until("document.querySelector('#alert').textContent.startsWith('the token is missing or old')")


def test_readers_hear_what_is_asked(page: Page, tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", "one"), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.call("Accessibility.enable")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    nodes_named = {
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
    }
    assert {("group", "fluency"), ("radio", "3"), ("radio", "yes"), ("heading", "Item 1 of 1")} <= nodes_named
    assert {("progressbar", "Answered items"), ("form", "Answers"), ("navigation", "Items")} <= nodes_named


@pytest.mark.parametrize("width", [320, 390, 1000])
def test_nothing_is_wider_than_the_screen(page: Page, tmp_path: Path, width: int) -> None:
    with serving(export_items(tmp_path / "items", "long" * 200), "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        page.look(tmp_path / "shot.png", width=width, dark=True)
        assert page.script("document.documentElement.scrollWidth <= innerWidth")
        assert page.script("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"


def test_examples_are_shown_with_all_their_parts_and_a_comment_is_saved(page: Page, tmp_path: Path) -> None:
    figeval.export_items(task="mini_alignment", output=tmp_path / "items", criteria="quality=1-5", n=2, checks=0)
    with serving(tmp_path / "items", "--annotator", "kim") as server:
        page.open(server.address)
        page.until(WORK_IS_SHOWN)
        heads = page.script("[...document.querySelectorAll('article h2')].map((head) => head.textContent)")
        assert heads == ["text 1", "span of text 1", "text 2", "span of text 2"]
        page.click("#comment")
        for letter in "4, odd":
            page.press(letter)
        page.click("#next")
        page.until("document.querySelector('#position').textContent === 'Item 2 of 2'")
        page.until("document.querySelector('#comment').value === ''")
        page.click("#back")
        page.until("document.querySelector('#comment').value === '4, odd'")
        assert [row[1:] for row in answers(tmp_path / "items", "kim")] == [("comment", "4, odd")], (
            "no key chose a label"
        )
        assert server.stop().startswith("kim: 0 judgements\n")
        assert page.violations == []


def test_two_texts_stand_side_by_side_and_keys_choose_one(page: Page, tmp_path: Path) -> None:
    texts = [
        (name, "e", {"proverb": "A proverb."}, f"{HOSTILE_TEXT} by number {name}") for name in ("one", "two", "three")
    ]
    folder = export_texts(tmp_path / "items", texts, {}, battles="all")
    with serving(folder) as server:
        order = [item["item"] for item in server.items("kim")["items"]]
        start_work(page, server, "kim")
        tops = "[...document.querySelectorAll('.beside > div')].map((node) => node.getBoundingClientRect().top)"
        assert page.script(f"{tops}.length === 2 && new Set({tops}).size === 1")
        for key, label in (("a", "A"), ("t", "tie"), ("B", "B")):
            page.press(key)
            page.until(f"document.querySelector('#status').textContent === 'preference: {label}, saved'")
            page.press("ArrowRight")
        assert page.script("document.title === 'Annotation' && !document.querySelector('article img, article script')")
        server.stop()
    assert answers(folder, "kim") == [
        (item, "preference", label) for item, label in zip(order, ("A", "tie", "B"), strict=True)
    ]
