"""Who asks, as options, variables and files say it."""

from pathlib import Path

import click
import pytest

from aerobee.cli.credentials import FILE_BYTES_MAX, find_credentials, read_credentials
from aerobee.remoting.net.access.credentials import SessionCredentials

ANN = SessionCredentials("ann", "it's: #1")


def written(folder: Path, text: str) -> Path:
    """Return a file with a text that its owner alone may read."""
    file = folder / "tools.yml"
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    "text",
    [
        'accessKey: ann\nsecretKey: "it\'s: #1"\n',
        '\ufeff---\r\naccessKey: ann # who\r\nsecretKey: "it\'s: #1" # \r\n\r\nother: x\r\n',
        "AccessKey=ann\nSecretKey=it's: #1\n",
        "accessKey: ann\nsecretKey: 'it''s: #1'\n",
        '{"accessKey": "ann", "secretKey": "it\\u0027s: \\x231"}\n',
    ],
    ids=["tools.yml", "with comments", "key file", "doubled quotes", "escapes"],
)
def test_files_of_rocketmq_are_read(tmp_path: Path, text: str) -> None:
    """Quoted or not, with what a secret may have in it."""
    assert read_credentials(written(tmp_path, text)) == ANN


@pytest.mark.parametrize("secret", ["0012", "1e3", "true", "a=b", "a:b", "@b", "*b", "&b", "{b"])
def test_a_secret_is_text_whatever_it_looks_like(tmp_path: Path, secret: str) -> None:
    """No number, and what YAML does not take is taken as it is."""
    found = read_credentials(written(tmp_path, f"accessKey: 007\nsecretKey: {secret}\n"))
    if secret == "&b":  # an anchor, and nothing behind it
        assert found is None
    else:
        assert found == SessionCredentials("007", secret)


def test_a_token_goes_with_it(tmp_path: Path) -> None:
    """As RocketMQ's key file has it."""
    file = written(tmp_path, "AccessKey=a\nSecretKey=s\nSecurityToken=t\n")
    assert find_credentials(None, None, file) == SessionCredentials("a", "s", "t")


@pytest.mark.parametrize("text", ["", "accessKey: a", "accessKey:\nsecretKey:\n", "no pairs here"])
def test_half_of_it_is_nobody(tmp_path: Path, text: str) -> None:
    """Refused where the file was named; mqadmin's own place may say nothing."""
    file = written(tmp_path, text)
    assert read_credentials(file) is None
    with pytest.raises(click.UsageError, match="both accessKey and secretKey"):
        find_credentials(None, None, file)


@pytest.mark.parametrize("data", [b"a" * (FILE_BYTES_MAX + 1), b"\xff\xfe\x00a"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes) -> None:
    """By its name."""
    file = tmp_path / "key"
    file.write_bytes(data)
    file.chmod(0o600)
    with pytest.raises(click.UsageError, match=str(file)):
        read_credentials(file)


def test_options_come_before_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And their secret from a file before the variable; nobody is asked without a terminal."""
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert find_credentials(None, None, None) is None
    file = written(tmp_path, "accessKey: a\nsecretKey: s\n")
    (tmp_path / "conf").mkdir()
    file.rename(tmp_path / "conf" / "tools.yml")
    assert find_credentials(None, None, None) == SessionCredentials("a", "s")
    monkeypatch.setenv("AEROBEE_SECRET_KEY", "of the variable")
    assert find_credentials("bob", None, None) == SessionCredentials("bob", "of the variable")
    secret = written(tmp_path, "of the file\n")
    assert find_credentials("bob", secret, None) == SessionCredentials("bob", "of the file")
    secret.write_text("\n")
    with pytest.raises(click.UsageError, match="secret of bob is empty"):
        find_credentials("bob", secret, None)
    with pytest.raises(click.UsageError, match="goes with --access-key"):
        find_credentials(None, secret, None)
