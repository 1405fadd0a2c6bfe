"""`figeval annotate serve`: a real server on this machine, its attackers, and what it has stored when it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.wings.annotation.served import Server, export_items, export_texts, serving

pytestmark = pytest.mark.slow
HOSTILE_TEXT = "<script>alert(1)</script>\x1b[31mred\x07\u202egnirts\u202c\u200b\r\nnext\tline & <b>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose requests do not build on one another."""
    folder = tmp_path_factory.mktemp("served")
    with serving(export_items(folder / "items", "one", "two", HOSTILE_TEXT, checks=1)) as running:
        yield running


# ---- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:PORT"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1.evil.example:PORT"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:PORT"},
        {"Origin": "http://localhost:PORT"},  # another site than 127.0.0.1
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer \xe9"},
        {"Authorization": "TOKEN"},
    ],
    ids=str,
)
def test_requests_from_elsewhere_are_refused(server: Server, headers: dict[str, str]) -> None:
    filled = {
        name: value.replace("PORT", str(server.port)).replace("TOKEN", server.token) for name, value in headers.items()
    }
    judgement = json.dumps({"annotator": "eve", "item": "1", "criterion": "fluency", "label": "3"}).encode()
    for method, path, body in (("POST", "/api/answers", judgement), ("GET", "/api/items?annotator=eve", None)):
        status, content, sent = server.request(method, path, body, filled)
        assert status == 403
        assert list(content) == ["error"]
        assert not [name for name in sent if name.lower().startswith("access-control-")]
    if "Authorization" not in headers:
        assert server.request("GET", "/", headers=filled)[0] == 403
    assert "eve" not in server.request("GET", "/api/annotators")[1]["known"]


def test_a_request_has_one_host(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        hosts = f"Host: 127.0.0.1:{server.port}\r\nHost: evil.example\r\n"
        raw.sendall(f"GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert re.match(rb"HTTP/1.1 40[03] ", raw.recv(1000))


def test_no_preflight_is_granted(server: Server) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert server.request("OPTIONS", "/api/answers", headers=headers)[0] == 403
    status, _, sent = server.request("OPTIONS", "/api/answers")
    assert status == 405
    assert not [name for name in sent if name.lower().startswith("access-control-")]


def test_it_listens_on_loopback_only(server: Server) -> None:
    listening = {
        line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    }
    assert [address for address in listening if address.endswith(f":{server.port:04X}")] == [
        f"0100007F:{server.port:04X}"
    ]


def test_pages_load_nothing_from_elsewhere(server: Server) -> None:
    for path in ("/", "/page.js", "/page.css"):
        status, content, sent = server.request("GET", path, headers={"Authorization": ""})
        assert status == 200
        assert b"http" not in content.replace(b"http-equiv", b"")
        assert b"innerHTML" not in content
        policy = sent["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert sent["cache-control"] == "no-store"
        assert sent["referrer-policy"] == "no-referrer"
        assert sent["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/key.json", "/sheet_1.csv", "/../key.json", "/api/key.json", "/page.html/../key.json"]
)
def test_the_files_of_the_folder_are_not_served(server: Server, path: str) -> None:
    assert server.request("GET", path)[0] == 404


def test_the_page_knows_nothing_of_the_key(server: Server) -> None:
    shown = server.items("kim")
    assert set(shown) == {"annotator", "instructions", "criteria", "beside", "items"}
    assert all(set(item) == {"item", "fields", "answers"} for item in shown["items"])
    assert not re.search("someone|example-|a_task|gold", json.dumps(shown))


# ---- what is taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "6"}, "'6' is not on the scale of fluency: 1, 2, 3, 4, 5"),
        ({"label": "<script>"}, "'<script>' is not on the scale"),
        ({"label": "\x1b[2J"}, "is not on the scale"),
        ({"label": 3}, "label"),
        ({"item": "99"}, "there is no item '99'"),
        ({"criterion": "beauty"}, "there is no criterion 'beauty'"),
        ({"annotator": "../../etc/passwd"}, "is no name for an annotator"),
        ({"annotator": ""}, "is no name for an annotator"),
        ({"annotator": "k" * 41}, "is no name for an annotator"),
        ({"annotator": "a\u202eb"}, "is no name for an annotator"),
        ({"time": "2000-01-01T00:00:00Z"}, "time"),
    ],
    ids=str,
)
def test_what_is_no_answer_is_refused(server: Server, changes: dict[str, object], message: str) -> None:
    judgement = {"annotator": "kim", "item": "1", "criterion": "fluency", "label": "3", **changes}
    status, content, _ = server.request("POST", "/api/answers", json.dumps(judgement).encode())
    assert status == 422
    assert message in content["error"]
    assert server.items("kim")["items"][0]["answers"] == {}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 5000, b"1" * 5000])
def test_what_is_no_json_is_refused(server: Server, body: bytes) -> None:
    status, content, _ = server.request("POST", "/api/answers", body)
    assert status in (400, 422)
    assert "error" in content


def test_a_form_or_a_long_body_is_refused(server: Server) -> None:
    assert server.request("POST", "/api/answers", b"item=1", {"Content-Type": "text/plain"})[0] == 415
    assert server.request("POST", "/api/answers", b" " * 20_000)[0] == 413


@pytest.mark.parametrize("to", ["csv", "label_studio"])
def test_hostile_texts_are_shown_and_do_nothing(to: str, tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", HOSTILE_TEXT, "=1+1", to=to)) as running:
        fields = [dict(item["fields"]) for item in running.items("kim")["items"]]
    texts = sorted(field["text"] for field in fields)
    assert texts[1] == "=1+1"
    assert texts[0].startswith("<script>alert(1)</script>")
    assert "\nnext\tline & <b>" in texts[0]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e]", texts[0])
    if to == "label_studio":  # sheets are cleaned when they are exported
        assert "␛[31mred␇⟨U+202E⟩gnirts⟨U+202C⟩⟨U+200B⟩" in texts[0]


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_answers_survive_a_kill_and_a_restart(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one", "two", "three")
    with serving(folder) as running:
        assert running.greeting == "3 items of a_task; Ctrl-C ends the server\n"
        order = [item["item"] for item in running.items("kim")["items"]]
        assert running.answer("kim", order[0], "fluency", "2")[0] == 200
        status, stored = running.answer("kim", order[0], "coherent", "YES")
        assert (status, stored["label"]) == (200, "yes")
        assert running.answer("Kim", order[1], "fluency", "4")[1]["annotator"] == "kim"
        running.kill()
    file = folder / "answers_kim.jsonl"
    lines = file.read_bytes()
    assert lines.count(b"\n") == 3
    file.write_bytes(lines + b'{"annotator": "kim", "item": "')  # what a crash of the machine may leave

    with serving(folder) as running:
        shown = running.items("kim")["items"]
        assert [item["item"] for item in shown] == order
        assert [item["answers"] for item in shown] == [{"fluency": "2", "coherent": "yes"}, {"fluency": "4"}, {}]
        assert running.answer("kim", order[1], "fluency", "5")[0] == 200  # another opinion
        assert running.answer("kim", order[0], "coherent", "")[0] == 200  # none at all
        assert running.answer("lou", order[2], "fluency", "1")[0] == 200
        assert running.request("GET", "/api/annotators")[1] == {"only": None, "known": ["kim", "lou"]}
        assert running.stop() == "kim: 2 judgements\nlou: 1 judgement\nfigeval annotate import --to items\n"
    assert file.read_bytes().startswith(lines)
    assert file.read_bytes().count(b"\n") == 5

    done = cli("annotate", "import", "--to", "items", "--json")
    assert done.code == 0, done.err
    human_results = json.loads(done.out)
    assert (human_results["annotators"], human_results["judgements"], human_results["skipped"]) == (
        ["kim", "lou"],
        3,
        1,
    )
    (fluency,) = [system for system in human_results["systems"] if system["criterion"] == "fluency"]
    assert fluency["score"]["value"] == pytest.approx((2 + 5 + 1) / 3)
    times = [line.split(",")[-1] for line in (folder / "judgements.csv").read_text("utf-8-sig").splitlines()[1:]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)


def test_annotators_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *map(str, range(15)))
    with serving(folder) as running:
        refused = []

        def judge(annotator: str, label: str) -> None:
            for item in [item["item"] for item in running.items(annotator)["items"]]:
                status, content = running.answer(annotator, item, "fluency", label)
                if status != 200:
                    refused.append(content)

        people = [("kim", "1"), ("kim", "1"), ("lou", "2"), ("max", "3")]  # kim has two tabs
        threads = [threading.Thread(target=judge, args=person) for person in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert refused == []
        output = running.stop()
    assert output.startswith("kim: 15 judgements\nlou: 15 judgements\nmax: 15 judgements\n")
    assert (folder / "answers_kim.jsonl").read_bytes().count(b"\n") == 30


def test_an_address_for_one_annotator(tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one")
    with serving(folder, "--annotator", "kim") as running:
        assert running.request("GET", "/api/annotators")[1] == {"only": "kim", "known": []}
        status, content = running.answer("lou", "1", "fluency", "1")
        assert (status, content["error"]) == (422, "this address is for kim; ask for another one")
        assert running.stop() == "nothing has been judged yet\nfigeval annotate import --to items\n"


def test_orders_are_those_of_sheets(tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *map(str, range(9)))
    sheet = [line.split(",")[0] for line in (folder / "sheet_1.csv").read_text("utf-8-sig").splitlines()[1:]]
    with serving(folder) as running:
        orders = {name: [item["item"] for item in running.items(name)["items"]] for name in ("sheet_1", "kim", "lou")}
    assert orders["sheet_1"] == sheet
    assert orders["kim"] != orders["lou"]
    assert sorted(orders["kim"]) == sorted(sheet)


# ---- what cannot be served -------------------------------------------------------------------------------------------


def test_texts_of_an_example_stand_together(tmp_path: Path) -> None:
    texts = [(author, f"e{n}", {"proverb": f"Proverb {n}"}, "A.") for n in range(9) for author in ("a", "b")]
    with serving(export_texts(tmp_path / "items", texts, together="example")) as server:
        proverbs = [dict(item["fields"])["proverb"] for item in server.items("kim")["items"]]
    assert proverbs[::2] == proverbs[1::2]
    assert proverbs[::2] != sorted(proverbs[::2])


def test_comments_are_stored_as_clean_texts_and_are_no_judgements(tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one")
    with serving(folder) as server:
        status, stored = server.answer("kim", "1", "comment", " odd\x1b[31m\nand <b>long</b> ")
        assert (status, stored["label"]) == (200, "odd\nand <b>long</b>")
        assert server.items("kim")["items"][0]["answers"] == {"comment": "odd\nand <b>long</b>"}
        server.answer("kim", "1", "fluency", "3")
        assert server.stop().startswith("kim: 1 judgement\n")
    (comment,) = figeval.import_judgements(to=folder).people.comments
    assert comment.text == "odd\nand <b>long</b>"


def test_what_cannot_be_served_is_one_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "key.json" in cli("annotate", "serve", "nowhere").complaint
    folder = export_items(tmp_path / "items", "one", "two")
    assert "'a/b' is no name for an annotator" in cli("annotate", "serve", "items", "--annotator", "a/b").complaint
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert (
            f"--port: {port} is in use; give another one" in cli("annotate", "serve", "items", "--port", port).complaint
        )
    with serving(folder):
        assert "items is being served already" in cli("annotate", "serve", "items").complaint

    (folder / "answers_kim.jsonl").write_text("{}\n")
    assert "answers_kim.jsonl:1" in cli("annotate", "serve", "items").complaint
    (folder / "answers_kim.jsonl").unlink()
    (folder / ".serve.lock").unlink(missing_ok=True)
    (folder / ".serve.lock").mkdir()  # as a folder that cannot be written; root may write everywhere
    assert "cannot write items" in cli("annotate", "serve", "items").complaint
    (folder / ".serve.lock").rmdir()
    sheet = folder / "sheet_1.csv"
    sheet.write_text("\n".join(sheet.read_text("utf-8-sig").splitlines()[:-1]), "utf-8")
    assert (
        "is not in sheet_1.csv (1 are missing); export the items again" in cli("annotate", "serve", "items").complaint
    )
    none = export_items(tmp_path / "none", "one")
    key = json.loads((none / "key.json").read_text("utf-8"))
    (none / "key.json").write_text(json.dumps({**key, "items": {}}), "utf-8")
    (none / "sheet_1.csv").write_text((none / "sheet_1.csv").read_text("utf-8").splitlines()[0], "utf-8")
    assert "none has no items to judge" in cli("annotate", "serve", "none").complaint
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'figeval[annotate]'" in cli("annotate", "serve", "none").complaint


def test_connections_without_a_request_block_nobody_and_print_nothing(tmp_path: Path) -> None:
    """They need no token, and would use up the files that the server may have open."""
    with serving(export_items(tmp_path / "items", "one")) as running:
        silent = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(200)]
        slow = socket.create_connection(("127.0.0.1", running.port))
        slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
        (item,) = running.items("kim")["items"]
        assert running.answer("kim", item["item"], "fluency", "2")[0] == 200
        for connection in silent[:100]:
            connection.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b"", "the oldest ones were closed"
        junk = socket.create_connection(("127.0.0.1", running.port))
        junk.sendall(b"\x16\x03\x01 what is no request\r\n\r\n")
        assert junk.recv(20).startswith(b"HTTP/1.1 400")
        for connection in (*silent, slow, junk):
            connection.close()
        running.stop()  # nothing is on stderr


def test_a_connection_without_a_request_is_closed_after_a_while(tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", "one")) as running:
        slow = socket.create_connection(("127.0.0.1", running.port), timeout=30)
        slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        slow.close()
        running.stop()


def test_a_journal_that_is_no_file_or_has_an_answer_of_somebody_else_is_refused(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", "one")
    os.mkfifo(folder / "answers_kim.jsonl")
    assert "answers_kim.jsonl is not a regular file" in cli("annotate", "serve", folder).complaint
    assert "answers_kim.jsonl is not a regular file" in cli("annotate", "import", "--to", folder).complaint
    (folder / "answers_kim.jsonl").unlink()
    (item,) = json.loads((folder / "key.json").read_text())["items"]
    answer = {"annotator": "lee", "item": item, "criterion": "fluency", "label": "2", "time": "2026-01-31T23:59:59Z"}
    (folder / "answers_kim.jsonl").write_text(json.dumps(answer) + "\n")
    complaint = cli("annotate", "import", "--to", folder).complaint
    assert "answers_kim.jsonl:1: an answer of 'lee' among those of 'kim'" in complaint


def test_names_that_only_fold_to_the_same_are_two_people(tmp_path: Path) -> None:
    with serving(export_items(tmp_path / "items", "one")) as running:
        for name, name_read in (("SS", "SS"), ("%C3%9F", "ß"), ("ss", "SS"), ("%E1%BA%9E", "ß")):
            shown = running.items(name)
            assert shown["annotator"] == name_read
            assert running.answer(name_read, shown["items"][0]["item"], "fluency", "2")[0] == 200
