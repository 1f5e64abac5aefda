"""Files of certificates that are renewed: in halves, by links, out of date, unreadable."""

import errno
import logging
import os
import ssl
from pathlib import Path

import pytest
from support.servers.tls_certs import Pair, made, replace

from aerobee.remoting.net.certificates.sides import ClientTls, ServerTls
from aerobee.remoting.net.certificates.validity import out_of_date
from aerobee.remoting.net.certificates.watched import (
    JUDGE_INTERVAL_MS,
    LOOK_INTERVAL_MS,
    WatchedContext,
)
from aerobee.remoting.net.tls import TlsClientSettings, TlsMode

pytest.importorskip("cryptography", reason="makes the certificates of these tests")


class Look:
    """A context over a pair of files, with a clock that the test moves."""

    def __init__(self, pair: Pair) -> None:
        self.now_ms = 0
        settings = pair.server()
        self.watched = WatchedContext(
            settings.context,
            (settings.cert_path, settings.key_path),
            lambda: self.now_ms,
            out_of_date,
        )

    def look(self, times: int = 1) -> ssl.SSLContext:
        """Look a few times, each an interval later; return what is in use."""
        for _ in range(times):
            self.now_ms += LOOK_INTERVAL_MS
            self.watched.look()
        return self.watched.context


def test_half_a_pair_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever file comes first, however long the other one takes; it is told once."""
    for first, second in (("cert", "key"), ("key", "cert")):
        pair = Pair(tmp_path, first)
        pair.write("old")
        looking = Look(pair)
        old = looking.watched.context
        new = dict(zip(("cert", "key"), made("new"), strict=True))
        caplog.clear()
        replace(getattr(pair, first), new[first])
        assert looking.look(10) is old
        assert caplog.text.count("certificates kept") == 1
        replace(getattr(pair, second), new[second])
        assert looking.look(2) is not old


def test_files_that_are_being_written_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both within a look, or one after the other: no warning, and one change."""
    pair = Pair(tmp_path)
    pair.write("old")
    looking = Look(pair)
    old = looking.watched.context
    cert, key = made("new")
    replace(pair.cert, cert)
    assert looking.look() is old
    replace(pair.key, key)
    assert looking.look() is old
    new = looking.look()
    assert new is not old
    assert looking.look(5) is new
    assert "kept" not in caplog.text


@pytest.mark.parametrize("harm", [b"", b"-----BEGIN CERTIFICATE-----\nnonsense\n", None])
def test_what_cannot_be_read_changes_nothing(tmp_path: Path, harm: bytes | None) -> None:
    """Files that are empty, damaged or gone; when they are whole again they are taken."""
    pair = Pair(tmp_path)
    pair.write("old")
    looking = Look(pair)
    old = looking.watched.context
    if harm is None:
        pair.cert.unlink()
        pair.key.unlink()
    else:
        replace(pair.cert, harm)
        replace(pair.key, harm)
    assert looking.look(5) is old
    pair.write("new")
    assert looking.look(2) is not old


def test_what_could_not_be_read_for_a_while_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file numbers left, or no right to read until chown: nothing about the files changes."""
    pair = Pair(tmp_path)
    pair.write("old")
    looking = Look(pair)
    old = looking.watched.context
    pair.write("new")
    with monkeypatch.context() as exhausted:

        def fails(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        exhausted.setattr(ssl.SSLContext, "load_cert_chain", fails)
        assert looking.look(10) is old
    assert looking.look() is not old
    assert caplog.text.count("certificates kept") == 1


def test_a_folder_that_is_swapped_is_taken_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kubernetes mounts a secret: both files lead through `..data`, a link that is replaced."""
    link, data = tmp_path / "..data", [tmp_path / "..1", tmp_path / "..2"]
    for folder in data:
        folder.mkdir()
        Pair(folder).write(folder.name)
    link.symlink_to(data[0].name)
    pair = Pair(tmp_path)
    for path in (pair.cert, pair.key):
        path.symlink_to(Path(link.name) / path.name)
    looking = Look(pair)
    old = looking.watched.context
    assert looking.look(3) is old
    aside = tmp_path / "..data_tmp"
    aside.symlink_to(data[1].name)
    aside.replace(link)
    new = looking.look(2)
    assert new is not old
    for path in (*data[0].iterdir(), data[0]):
        path.unlink() if path.is_file() else path.rmdir()
    assert looking.look(3) is new, "what it led to before does not matter"
    link.unlink()  # the secret is gone
    assert looking.look(10) is new
    assert caplog.text.count("certificates kept") == 1
    link.symlink_to(data[1].name)
    looking.look(3)
    assert caplog.text.count("certificates kept") == 1


def test_a_file_written_in_place_with_its_old_time_is_seen(tmp_path: Path) -> None:
    """Copies that keep times (`cp -p`, rsync) may change neither time, size nor place."""
    pair, source = Pair(tmp_path), Pair(tmp_path, "source")
    pair.write("old")
    while True:  # signatures differ in length
        source.write("new")
        sizes = [path.stat().st_size for path in (pair.cert, pair.key, source.cert, source.key)]
        if sizes[:2] == sizes[2:]:
            break
    looking = Look(pair)
    old = looking.watched.context
    for path, new in ((pair.cert, source.cert), (pair.key, source.key)):
        times = path.stat()
        path.write_bytes(new.read_bytes())
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert looking.look(2) is not old


def test_a_right_to_read_that_is_lost_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the restart that would fail by it; what is in use stays."""
    pair = Pair(tmp_path)
    pair.write("old")
    looking = Look(pair)
    old = looking.watched.context
    with monkeypatch.context() as forbidden:

        def fails(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        forbidden.setattr(ssl.SSLContext, "load_cert_chain", fails)  # root may read everything
        pair.key.chmod(0)
        assert looking.look(10) is old
        assert caplog.text.count("certificates kept") == 1
        assert "Permission denied" in caplog.text and str(pair.key) in caplog.text
    pair.key.chmod(0o600)
    assert looking.look(3) is not old
    assert caplog.text.count("certificates kept") == 1


@pytest.mark.parametrize(
    ("harm", "why"),
    [("expired", "certificate has expired"), ("early", "certificate is not yet valid")],
)
def test_a_new_certificate_that_is_out_of_date_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str, why: str
) -> None:
    """Every client that verifies would refuse it, and the one in use works; told once."""
    caplog.set_level(logging.INFO)
    pair = Pair(tmp_path)
    pair.write("old")
    looking = Look(pair)
    old = looking.watched.context
    pair.write("wrong", **{harm: True})
    assert looking.look(10) is old
    assert why in caplog.text and caplog.text.count("certificates kept") == 1
    pair.write("good")
    assert looking.look(2) is not old
    assert "certificates loaded anew" in caplog.text and not out_of_date(looking.look())


def test_a_certificate_out_of_date_keeps_no_other_out(tmp_path: Path) -> None:
    """Where the one in use is no better, as by a clock that is wrong, the newer one is taken."""
    pair = Pair(tmp_path)
    pair.write("old", expired=True)
    looking = Look(pair)
    old = looking.watched.context
    pair.write("new", early=True)
    assert looking.look(2) is not old


def test_a_server_that_starts_with_an_expired_certificate_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And serves, for clients that do not verify; any other certificate is better then."""
    pair = Pair(tmp_path)
    pair.write("old", expired=True)
    tls = ServerTls(pair.server())
    assert tls.mode is TlsMode.PERMISSIVE
    assert caplog.text.count("out of date") == 1 and "certificate has expired" in caplog.text


def test_a_client_whose_own_certificate_has_expired_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers that verify hang up on it, most without a word; a good one is told nothing of."""
    pair = Pair(tmp_path)
    pair.write("good")
    ClientTls(pair.client())
    ClientTls(TlsClientSettings())
    assert not caplog.messages
    pair.write("old", expired=True)
    ClientTls(pair.client())
    (line,) = caplog.messages
    assert "out of date" in line and "certificate has expired" in line and str(pair.cert) in line


def test_the_end_of_a_certificate_in_use_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewal that never came is no change of files: one warning, and another for the next."""
    pair = Pair(tmp_path)
    pair.write("old")
    settings, now_ms, why = pair.server(), 0, ""
    paths = (settings.cert_path, settings.key_path)
    watched = WatchedContext(settings.context, paths, lambda: now_ms, lambda _: why)
    for renewed in ("new", "newer"):
        caplog.clear()
        for _ in range(3):
            now_ms += JUDGE_INTERVAL_MS
            watched.look()
        assert "out of date" not in caplog.text
        why = "certificate has expired"
        for _ in range(3):
            now_ms += JUDGE_INTERVAL_MS
            watched.look()
        (line,) = (each for each in caplog.messages if "out of date" in each)
        assert why in line
        assert str(pair.cert) in line
        old = watched.context
        pair.write(renewed)
        why = ""
        for _ in range(2):
            now_ms += LOOK_INTERVAL_MS
            watched.look()
        assert watched.context is not old
