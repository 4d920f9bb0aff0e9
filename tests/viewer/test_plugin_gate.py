"""Who gets an answer: the page on its own host does, other sites, rebound names and other methods do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.viewer.plugin.gate import READING, Gate, host_name, unproven, wrong_method
from tb_netdebug.viewer.plugin.roots import described, names_of, parse_spec

HOME = {
    "REQUEST_METHOD": "GET",
    "HTTP_HOST": "localhost:6006",
    "SERVER_NAME": "127.0.0.1",
    "SERVER_PORT": "6006",
}
REBOUND = {"HTTP_HOST": "rebind.example:6006"}
NETWORK = {"SERVER_NAME": "0.0.0.0"}
WIDE = {"SERVER_NAME": "::"}


def status(gate: Gate = Gate(), **changed: str) -> int:  # noqa: B008
    environ = {**HOME, **changed}
    refused = wrong_method(environ, READING) or gate.refusal(environ)
    return refused.status if refused else 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "GET ", "get", ""]
)
def test_only_get_and_head_pass(method: str) -> None:
    """Preflights and everything that writes end here, and so does anything invented."""
    assert 405 == status(REQUEST_METHOD=method)
    assert [200, 200] == [status(REQUEST_METHOD=method) for method in READING]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:6006",
        "localhost.:80",
        "127.0.0.1:6006",
        "127.8.7.6",
        "[::1]:6006",
        "10.0.0.5:1",
        "0.0.0.0:6006",
    ],
)
def test_this_machine_and_addresses_pass(host: str) -> None:
    """An address cannot be rebound, whatever port a tunnel gives it."""
    assert 200 == status(HTTP_HOST=host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:6006", "localhost.evil.example", "localhost:6006.evil.example",
        "127.0.0.1.evil.example", "127.1", "0x7f.1", "localhost@evil.example", "localhost,evil.example",
        "localhost6", "localhost..", "localhost:0", "localhost:65536", "127.0.0.1:99999", "user@localhost",
        "user:x@127.0.0.1",
        "localhost:", "localhost:1:2", "[::1", "::1", "", " ", "localhost\n", "localhost/..",
        "l\u043ecalhost",
    ],
)  # fmt: skip
def test_other_names_are_refused_on_loopback(host: str) -> None:
    """While TensorBoard listens on this machine alone, a name that is not known is a rebound one."""
    assert 403 == status(HTTP_HOST=host)


def test_the_refusal_says_what_to_do() -> None:
    """The sentence names the host that was asked for and an address that works."""
    refused = Gate().refusal({**HOME, **REBOUND})
    assert refused is not None
    assert "'rebind.example:6006'" in refused.sentence
    assert "http://localhost:6006/" in refused.sentence


def test_a_name_given_to_tensorboard_passes() -> None:
    """What stands behind `--host` and `--netdebug_allowed_hosts` is meant."""
    assert 200 == status(Gate(frozenset(["box.lab"])), HTTP_HOST="Box.lab:6006")


@pytest.mark.parametrize("where", [{}, NETWORK])
def test_names_that_are_listed_are_all_there_are(where: dict[str, str]) -> None:
    """Also on the network, once somebody has said by which names TensorBoard goes there."""
    gate = Gate(frozenset(["box.lab"]), listed=True)
    assert 403 == status(gate, **REBOUND, **where)
    assert 200 == status(gate, HTTP_HOST="box.lab", **where)
    assert 200 == status(gate, HTTP_HOST="10.0.0.5:6006", **where)
    assert 200 == status(gate, **REBOUND, HTTP_SEC_FETCH_SITE="same-origin", **where)


@pytest.mark.parametrize("where", [NETWORK, WIDE, {"SERVER_NAME": "10.0.0.5"}])
def test_any_name_passes_when_tensorboard_is_on_the_network(where: dict[str, str]) -> None:
    """A machine on the network has names that nobody here knows."""
    assert 200 == status(**REBOUND, **where)


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_proxy_with_https_passes(site: str) -> None:
    """Browsers mark requests only over https and on localhost, and a rebound name is neither."""
    assert 200 == status(**REBOUND, HTTP_SEC_FETCH_SITE=site)


def test_a_header_that_scripts_can_set_opens_nothing() -> None:
    """A page under a rebound name can claim to come through a proxy."""
    assert 403 == status(**REBOUND, HTTP_X_FORWARDED_HOST="localhost", HTTP_X_FORWARDED_FOR="127.0.0.1")
    assert 403 == status(**REBOUND, HTTP_ORIGIN="http://rebind.example:6006")


@pytest.mark.parametrize("where", [{}, NETWORK])
def test_other_sites_are_refused(where: dict[str, str]) -> None:
    """By the browser's mark, or by an Origin that is not the Host in a browser without marks."""
    assert 403 == status(HTTP_SEC_FETCH_SITE="cross-site", HTTP_SEC_FETCH_MODE="no-cors", **where)
    assert 403 == status(HTTP_SEC_FETCH_SITE="cross-site", HTTP_SEC_FETCH_MODE="cors", **where)
    assert 403 == status(HTTP_ORIGIN="http://evil.example", **where)
    assert 403 == status(HTTP_ORIGIN="http://localhost:8888", **where)
    assert 403 == status(HTTP_ORIGIN="null", **where)
    assert 403 == status(HTTP_ORIGIN="http://[", **where)


def test_a_link_from_elsewhere_may_be_followed() -> None:
    """Somebody pastes the address of the page into a chat; to nothing else do links lead."""
    link = {**HOME, "HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_SEC_FETCH_MODE": "navigate"}
    assert Gate().refusal(link, linked=True) is None
    refused = Gate().refusal(link)
    assert refused is not None
    assert 403 == refused.status


@pytest.mark.parametrize(
    "site", ["cross-site", "cross-site,cross-site", "same-site, none", "", "Same-Origin", "x"]
)
def test_a_mark_that_nobody_knows_is_a_foreign_one(site: str) -> None:
    """Browsers have four of them."""
    assert 403 == status(HTTP_SEC_FETCH_SITE=site, HTTP_SEC_FETCH_MODE="cors")


@pytest.mark.parametrize(
    ("headers", "read", "streamed"),
    [
        ({"HTTP_X_NETDEBUG": "1"}, True, True),
        ({"HTTP_X_NETDEBUG": "1", "HTTP_SEC_FETCH_SITE": "same-origin"}, True, True),
        ({"HTTP_SEC_FETCH_SITE": "same-origin"}, True, False),
        ({"HTTP_SEC_FETCH_SITE": "none"}, True, False),
        ({"HTTP_SEC_FETCH_SITE": "same-site"}, False, False),
        ({"HTTP_X_NETDEBUG": ""}, False, False),
        ({}, False, False),
    ],
)
def test_our_header_is_what_other_sites_cannot_send(
    headers: dict[str, str], read: bool, streamed: bool
) -> None:
    """A browser's mark does for what is only read; a place at the stream needs the header itself."""
    assert read == (unproven({**HOME, **headers}) is None)
    refused = unproven({**HOME, **headers}, header_only=True)
    assert streamed == (refused is None)
    assert streamed or (refused is not None and "-H 'X-NetDebug: 1'" in refused.sentence)


def test_our_own_page_passes() -> None:
    """With marks, with its own Origin, and from a program that sends neither, not even a Host."""
    assert 200 == status(HTTP_SEC_FETCH_SITE="same-origin", HTTP_SEC_FETCH_MODE="cors")
    assert 200 == status(HTTP_ORIGIN="http://localhost:6006")
    assert None is Gate().refusal({name: value for name, value in HOME.items() if name != "HTTP_HOST"})


@given(st.text(max_size=30) | st.binary(max_size=30).map(lambda raw: raw.decode("latin-1")))
def test_no_header_makes_it_fail(text: str) -> None:
    """Headers are anybody's text."""
    assert status(HTTP_HOST=text, HTTP_ORIGIN=text, HTTP_SEC_FETCH_SITE=text, REQUEST_METHOD="GET") in (
        200,
        403,
    )
    assert 405 == status(REQUEST_METHOD=f"X{text}")


@given(st.text(max_size=30))
def test_a_host_name_has_no_port_and_no_case(text: str) -> None:
    """Whatever is taken for a name can be compared with one."""
    name = host_name(text)
    assert name is None or (name == name.lower() and not set(name) & set("[]@/, \n"))


@pytest.mark.parametrize(
    ("spec", "roots"),
    [
        ("", []),
        ("/x", [("", "/x")]),
        ("a:/x,b:/y", [("a", "/x"), ("b", "/y")]),
        ("/foo:bar/baz", [("", "/foo:bar/baz")]),
        ("run:/path:with/colon", [("run", "/path:with/colon")]),
        ("s3://bucket/logs", [("", "s3://bucket/logs")]),
        ("cloud:gs://bucket/logs,/x", [("cloud", "gs://bucket/logs"), ("", "/x")]),
    ],
)
def test_a_logdir_spec_is_read_as_tensorboard_reads_it(spec: str, roots: list[tuple[str, str]]) -> None:
    """Names, colons in paths and URLs are told apart by its rules."""
    assert roots == parse_spec(spec)
    assert spec == described(roots).replace(", ", ",")


@pytest.mark.parametrize(
    ("run_dir", "names"),
    [
        ("/x/a/b", ["a", "b"]),
        ("/y/a", ["why", "a"]),
        ("/xy/a", None),
        ("/x/../etc", None),
        ("a", None),
        ("", None),
    ],
)
def test_a_folder_has_the_name_that_its_run_has(run_dir: str, names: list[str] | None) -> None:
    """When it is in the logdir at all."""
    assert names == names_of([("", "/x"), ("why", "/y")], run_dir)


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell expands `~` only at the start of a word, so behind a name it arrives as it is."""
    monkeypatch.setenv("HOME", "/home/ada")
    assert [("a", "/home/ada/runs")] == parse_spec("a:~/runs")
