"""Tests of the wing itself, with what its author can import."""

import json

import figeval_hello
import pytest
from click.testing import CliRunner
from figeval_hello.command import hello
from figeval_hello.languages import UnknownLanguage

import figeval
from figeval.testing import check_wing


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A stored run of a model that costs nothing."""
    folder = tmp_path_factory.mktemp("runs") / "overlap"
    return figeval.run("mini_fables,mini_pairs", "overlap", output_path=folder)


def test_the_wing_keeps_to_the_contract():
    check_wing(figeval_hello)


def test_a_run_and_its_folder_are_greeted_alike(run):
    greeting = figeval_hello.hello(run, language="latin")
    assert greeting == figeval_hello.hello(run.path, language="latin")
    assert str(greeting).startswith("Salve, overlap!\ntask ")
    assert "<table>" in greeting._repr_html_()
    frame = greeting.to_frame()
    assert list(frame.task) == ["mini_fables", "mini_pairs"]
    assert frame.share.between(0, 1).all()


def test_a_language_that_is_unknown(run):
    with pytest.raises(UnknownLanguage, match="the languages are english, german, latin"):
        figeval_hello.hello(run, language="klingon")


def test_the_command_writes_json_and_a_page(run, tmp_path):
    page = tmp_path / "hello.html"
    done = CliRunner().invoke(hello, [str(run.path), "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["tasks"][0]["task"] == "mini_fables"
    assert "Good morning, overlap!" in page.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page.read_text(encoding="utf-8")
