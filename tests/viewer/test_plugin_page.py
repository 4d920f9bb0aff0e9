"""The static files: a fixed table with safe headers, and a word about it where there is no page."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin import page
from tb_netdebug.viewer.plugin.replies import PAGE_POLICY, error_reply, json_reply, notice_page

SCRIPT = b"export const answer = 42;\n" * 200


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A page such as the build leaves it, with things beside it that are none of its files."""
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html><script type=module src=assets/a-1f.js></script>")
    (folder / "assets/a-1f.js").write_bytes(SCRIPT)
    (folder / "assets/dot.png").write_bytes(b"\x89PNG" + bytes(500))
    (folder / "assets/notes.py").write_text("secret = 1")
    (tmp_path / "outside.js").write_text("outside")
    (folder / "assets/link.js").symlink_to(tmp_path / "outside.js")
    return folder


def served(path: str, folder: Path, *, encoding: str = "") -> Response:
    headers = {"Accept-Encoding": encoding} if encoding else {}
    request = Request(EnvironBuilder(path=path, headers=headers).get_environ())
    return page.serve(page.load(folder)[path], request)


def test_the_table_has_the_files_of_the_page_alone(built: Path) -> None:
    """No link is followed, and what has an unknown ending stays where it is."""
    assert {"/index.html", "/index.js", "/assets/a-1f.js", "/assets/dot.png"} == set(page.load(built))


def test_files_with_a_hash_stay_for_ever(built: Path) -> None:
    """The page itself is asked for each time; it names the others by their hashes."""
    assert "no-cache" == served("/index.html", built).headers["Cache-Control"]
    assert "no-cache" == served("/index.js", built).headers["Cache-Control"]
    assert "immutable" in served("/assets/a-1f.js", built).headers["Cache-Control"]


def test_files_are_packed_for_whoever_unpacks(built: Path) -> None:
    """A browser gets the packed form, a program that did not ask for it the plain one."""
    packed = served("/assets/a-1f.js", built, encoding="br, gzip;q=0.5")
    assert "gzip" == packed.headers["Content-Encoding"]
    assert SCRIPT == gzip.decompress(packed.get_data())
    for encoding in ("", "identity", "gzip;q=0"):
        plain = served("/assets/a-1f.js", built, encoding=encoding)
        assert "Content-Encoding" not in plain.headers
        assert SCRIPT == plain.get_data()
        assert "Accept-Encoding" == plain.headers["Vary"]


def test_pictures_are_not_packed_again(built: Path) -> None:
    """They are packed by themselves."""
    assert "Content-Encoding" not in served("/assets/dot.png", built, encoding="gzip").headers


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/index.html", "text/html; charset=utf-8"),
        ("/index.js", "text/javascript; charset=utf-8"),
        ("/assets/a-1f.js", "text/javascript; charset=utf-8"),
        ("/assets/dot.png", "image/png"),
    ],
)
def test_types_do_not_depend_on_the_machine(built: Path, path: str, kind: str) -> None:
    """A browser runs a module only when its type says that it is one, and never guesses."""
    response = served(path, built)
    assert kind == response.headers["Content-Type"]
    assert "nosniff" == response.headers["X-Content-Type-Options"]


def test_the_page_may_load_from_its_own_host_alone(built: Path) -> None:
    """Nothing inline, nothing from elsewhere, and no other site around it."""
    assert PAGE_POLICY == served("/index.html", built).headers["Content-Security-Policy"]
    directives = dict(entry.split(" ", 1) for entry in PAGE_POLICY.split("; "))
    assert "'self'" == directives["default-src"] == directives["frame-ancestors"]
    assert {"'self'", "'none'"} == set(directives.values())


def test_without_a_page_there_is_still_its_entry(tmp_path: Path) -> None:
    """TensorBoard imports the entry module in any case, and the notice is plain text without scripts."""
    assert {"/index.js"} == set(page.load(tmp_path / "nowhere"))
    response = page.missing_page()
    assert 503 == response.status_code
    assert "make dev" in response.get_data(as_text=True)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_sentences_are_text_and_never_markup() -> None:
    """What a request brought along is shown as it is."""
    response = notice_page("<b>", ["</p><script>alert(1)</script>", "\ud800"])
    text = response.get_data(as_text=True)
    assert "<script>" not in text
    assert "&lt;b&gt;" in text


def test_big_json_is_packed_and_small_is_not() -> None:
    """A list of a thousand runs goes through a tunnel in a tenth of its size."""
    request = Request(EnvironBuilder(headers={"Accept-Encoding": "gzip"}).get_environ())
    small, big = json_reply(request, {"a": 1}), json_reply(request, {"a": ["text"] * 5000})
    assert b'{"a":1}' == small.get_data()
    assert "gzip" == big.headers["Content-Encoding"]
    assert len(gzip.decompress(big.get_data())) > 20 * len(big.get_data())


def test_errors_are_json_with_a_sentence() -> None:
    """Also one that names what somebody sent."""
    response = error_reply('There is no run "<b>\n".', status=404)
    assert {"error": 'There is no run "<b>\n".'} == response.get_json()
    assert ("404 Not Found", "no-store") == (response.status, response.headers["Cache-Control"])
    assert "GET, HEAD" == error_reply("No.", status=405).headers["Allow"]
