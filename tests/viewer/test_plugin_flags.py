"""Our flags: TensorBoard knows them, none of them can hold a secret or keep it from starting."""

from __future__ import annotations

import argparse

import pytest
from tensorboard.plugins.base_plugin import TBContext

from tb_netdebug.viewer.plugin.flags import ServerFlags, flags_of
from tb_netdebug.viewer.plugin.loader import FLAGS, NetDebugLoader


def parsed(*words: str) -> ServerFlags:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default=None)
    NetDebugLoader().define_flags(parser)
    return flags_of(TBContext(flags=parser.parse_args(words)))


def test_without_flags_nothing_is_asked_for() -> None:
    """TensorBoard knows them, and all are empty."""
    assert ServerFlags(listen="") == parsed()


def test_a_program_that_is_no_tensorboard_has_none_of_them() -> None:
    """Then there is no collector either: only TensorBoard's own process is ours to use for one."""
    assert ServerFlags() == flags_of(TBContext()) == flags_of(TBContext(flags=argparse.Namespace()))


def test_every_flag_is_read() -> None:
    """By its own name."""
    words = [f"--{name}={name[9:]}.x" for name in FLAGS]
    said = parsed(*words, "--host", "Box.Lab")
    assert ("listen.x", "tls_cert.x", "tls_key.x") == (said.listen, said.tls_cert, said.tls_key)
    assert ("token_file.x", ()) == (said.token_file, said.complaints)
    assert {"allowed_hosts.x", "box.lab"} == said.names


@pytest.mark.parametrize(
    ("text", "names", "wrong"),
    [
        ("a.lab", {"a.lab"}, 0),
        (" A.lab , b:6006,,[::1]", {"a.lab", "b", "::1"}, 0),
        ("http://a.lab,b", {"b"}, 1),
        ("a b,c@d,e/f", set(), 3),
    ],
)
def test_allowed_hosts_are_names(text: str, names: set[str], wrong: int) -> None:
    """A port does no harm; what is no name is said on the page."""
    said = parsed("--netdebug_allowed_hosts", text)
    assert (names, wrong) == (set(said.hosts), len(said.complaints))


def test_a_flag_that_exists_already_keeps_nobody_from_starting() -> None:
    """Another plugin may have taken the name; argparse would end the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--netdebug_tls_cert")
    NetDebugLoader().define_flags(parser)
    assert "x" == flags_of(TBContext(flags=parser.parse_args(["--netdebug_tls_cert", "x"]))).tls_cert


def test_help_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse would stumble over a percent sign."""
    parser = argparse.ArgumentParser()
    NetDebugLoader().define_flags(parser)
    parser.print_help()
    printed = capsys.readouterr().out
    assert [] == [name for name in FLAGS if f"--{name}" not in printed]
