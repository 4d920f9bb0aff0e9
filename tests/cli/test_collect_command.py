"""`netdebug collect` and `netdebug token`: what they say, how they end, and that they keep secrets."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tb_netdebug.cli import main
from tb_netdebug.transport.credentials import Certificate, read_token
from tests.support.dialer import dial
from tests.support.stream_peer import MAIN_NAME, Agent, Peer
from tests.support.terminal import Terminal, environment


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir()
    return folder


class Collect:
    """The command in a process of its own, with pipes for its output."""

    def __init__(self, logdir: Path, *words: str, **env: str) -> None:
        command = [sys.executable, "-m", "tb_netdebug", "collect", "--logdir", str(logdir), *words]
        self.process = subprocess.Popen(
            command, env=environment(**env), cwd=sys.prefix, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"listening at (\S+)\.$", self.said)
        assert found, self.said + self.end(signal.SIGKILL)[2]
        self.address = found[1]

    def __enter__(self) -> Collect:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, signum: signal.Signals) -> tuple[int, str, str]:
        """Exit code, and what it wrote."""
        self.process.send_signal(signum)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        output, errors = self.process.stdout.read(), self.process.stderr.read()
        return self.process.wait(), self.said + output, errors


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `collect` says when it cannot do as asked."""
    assert 2 == main(["collect", *words])
    captured = capsys.readouterr()
    assert "" == captured.out
    assert captured.err.startswith("netdebug: ")
    assert "Traceback" not in captured.err
    return " ".join(captured.err.split())


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_from_start_to_end(tmp_path: Path, runtime: Path, signum: signal.Signals) -> None:
    """A trainer of the same user sends without any setting; Ctrl-C and a shutdown end with a summary."""
    logdir = tmp_path / "logdir"
    with Collect(logdir, "--listen", ":0", XDG_RUNTIME_DIR=str(runtime)) as collect, Peer() as peer:
        assert "welcome" == dial(collect.address, {"XDG_RUNTIME_DIR": str(runtime)})
        (published,) = (runtime / "netdebug").glob("collector-*.json")
        token = re.search(r'"token": "([^"]+)"', published.read_text())
        assert token is not None
        agent = Agent(peer.stream(collect.address, token=token[1]))
        agent.greet()
        agent.begin("run")
        agent.offer()
        agent.chunk(b"x" * 2500, at=0)
        agent.acknowledged(2500)
        code, output, errors = collect.end(signum)
    assert b"x" * 2500 == (logdir / "run" / MAIN_NAME).read_bytes()
    assert (0, "") == (code, re.sub(r"[01] trainers?, .*/s\n", "", errors))
    assert f"NETDEBUG_REMOTE={collect.address}" in output
    assert output.endswith("2.5 kB of 1 training process.\n")
    assert token[1] not in output + errors
    assert [] == list((runtime / "netdebug").glob("collector-*.json"))


def test_progress_in_a_terminal(tmp_path: Path, runtime: Path) -> None:
    """One line that is kept current, and gone at the end."""
    command = [
        sys.executable,
        "-m",
        "tb_netdebug",
        "collect",
        "--listen",
        ":0",
        "--logdir",
        str(tmp_path / "logs"),
    ]
    with Terminal(command, {"XDG_RUNTIME_DIR": str(runtime)}, width=100) as terminal:
        terminal.wait_for_output(r"0 trainers, 0 B received, 0 B/s")
        terminal.press("\x03")
        assert 0 == terminal.end()
        assert re.search(r"Ended after \d+ s: 0 B of 0 training processes\.\n$", terminal.written)


def test_no_secret_comes_out(tmp_path: Path, runtime: Path) -> None:
    """Not in the process list, not in what is written, with a token in a file as in the environment."""
    assert 0 == main(["token", "--output", str(tmp_path / "keys")])
    token = read_token(tmp_path / "keys/token")
    ways = (["--token-file", str(tmp_path / "keys/token")], {}), ([], {"NETDEBUG_TOKEN": token})
    for words, env in ways:
        with Collect(
            tmp_path / "logs", "--listen", ":0", *words, XDG_RUNTIME_DIR=str(runtime), **env
        ) as collect:
            assert "welcome" == dial(
                collect.address, {"NETDEBUG_TOKEN": token, "XDG_RUNTIME_DIR": str(tmp_path)}
            )
            assert "UNAUTHENTICATED" == dial(
                collect.address, {"NETDEBUG_TOKEN": "x" * 30, "XDG_RUNTIME_DIR": str(tmp_path)}
            )
            lines = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
            assert not [line for line in lines if token in line]
            assert token not in "".join(collect.end(signal.SIGINT)[1:])


# ---- mistakes


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, and no words of gRPC."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(capsys, "--listen", f":{port}", "--logdir", str(tmp_path))
    assert f"netdebug: Port {port} is used by another program: choose another port." == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--listen", "nowhere"], "'nowhere' is not an address"),
        (["--listen", "127.0.0.2:0"], "127.0.0.1 or [::1]"),
        (["--listen", "0.0.0.0:0"], "netdebug token --tls"),
        (["--listen", "0.0.0.0:0", "--token-file", "{keys}/token"], "a certificate is needed"),
        (["--listen", "no-such-host.invalid:1", "--insecure"], "no address 'no-such-host.invalid'"),
        (["--tls-cert", "{keys}/cert.pem"], "must be given together"),
        (["--tls-cert", "{keys}/token", "--tls-key", "{keys}/token"], "not a certificate and its key"),
        (["--tls-cert", "x", "--tls-key", "y", "--insecure"], "exclude each other"),
        (["--token-file", "{keys}/missing"], "cannot be read: No such file"),
        (["--logdir", "{keys}/token"], "is a file"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """Each mistake has a sentence of its own."""
    assert 0 == main(["token", "--output", str(tmp_path)])
    capsys.readouterr()
    assert told in refused(
        capsys, "--logdir", str(tmp_path / "logs"), *(word.format(keys=tmp_path) for word in words)
    )
    assert not (tmp_path / "logs").exists()


def test_a_token_with_white_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Says so at once, from a file as from the environment, without showing it."""
    file = tmp_path / "token"
    file.write_text("two words and more words\n")
    file.chmod(0o600)
    by_file = refused(capsys, "--logdir", str(tmp_path), "--token-file", str(file))
    monkeypatch.setenv("NETDEBUG_TOKEN", "two words and more words")
    for told, source in (
        (by_file, str(file)),
        (refused(capsys, "--logdir", str(tmp_path)), "NETDEBUG_TOKEN"),
    ):
        assert f"{source} does not hold a token: it contains white space (character 4)." in told
        assert "words" not in told.replace(str(tmp_path), "")


# ---- netdebug token


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `netdebug token --tls` says."""
    assert 0 == main(["token", "--tls", "--output", str(tmp_path / "keys")])
    return capsys.readouterr().out


def test_token_and_certificate(tmp_path: Path, made: str) -> None:
    """Files for their owner alone, a fingerprint, and what to type on both sides, without the secret."""
    keys = tmp_path / "keys"
    assert {"token", "cert.pem", "key.pem"} == {path.name for path in keys.iterdir()}
    assert 0o700 == keys.stat().st_mode & 0o777
    assert {0o600} == {path.stat().st_mode & 0o777 for path in keys.iterdir()}
    fingerprint = Certificate.read(keys / "cert.pem", keys / "key.pem").fingerprint
    for part in (
        fingerprint,
        "NETDEBUG_TOKEN_FILE=",
        "NETDEBUG_TLS_FINGERPRINT=",
        "--tls-key",
        "--netdebug_tls_key",
    ):
        assert part in made
    assert read_token(keys / "token") not in made


def test_what_it_says_can_be_typed(tmp_path: Path, made: str, runtime: Path) -> None:
    """The collector's line works as printed, and what it prints brings a trainer in."""
    words = re.search(r"netdebug (collect .*?)\nor", made, re.DOTALL)
    assert words is not None
    typed = words[1].replace("\\\n", " ").replace("0.0.0.0:6007", "0.0.0.0:0").split()
    assert ["collect", "--logdir"] == [typed[0], typed[3]]
    with Collect(tmp_path / "logs", *typed[1:3], *typed[5:], XDG_RUNTIME_DIR=str(runtime)) as collect:
        port = collect.address.rpartition(":")[2]
        exported = dict(re.findall(r"export (NETDEBUG_TLS_FINGERPRINT)=(\S+)", made))
        exported |= {"NETDEBUG_TOKEN_FILE": str(tmp_path / "keys/token"), "XDG_RUNTIME_DIR": str(tmp_path)}
        assert "welcome" == dial(f"127.0.0.1:{port}", exported)
        code, output, _ = collect.end(signal.SIGINT)
    assert (0, True) == (code, f"NETDEBUG_TLS_FINGERPRINT={exported['NETDEBUG_TLS_FINGERPRINT']}" in output)


def test_nothing_is_overwritten(tmp_path: Path, made: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A second call tells of what is there; only --new makes everything anew."""
    keys = tmp_path / "keys"
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    assert 0 == main(["token", "--tls", "--output", str(keys)])
    assert (made, before) == (
        capsys.readouterr().out,
        {path.name: path.read_bytes() for path in keys.iterdir()},
    )
    assert 0 == main(["token", "--tls", "--new", "--output", str(keys)])
    assert not [name for name, data in before.items() if data == (keys / name).read_bytes()]


def test_without_openssl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what to install, and a token alone needs none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert 2 == main(["token", "--tls"])
    assert "apt install openssl" in capsys.readouterr().err
    assert 0 == main(["token"])
    assert str(tmp_path / "config/netdebug/token") in capsys.readouterr().out
