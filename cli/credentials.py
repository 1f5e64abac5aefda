"""The options by which commands say who they are: what their requests are signed with."""

import functools
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from aerobee.cli.program import ctrl_c_ends, with_options
from aerobee.remoting.net.access.credentials import SessionCredentials

ACCESS_KEY_VARIABLE: Final = "AEROBEE_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "AEROBEE_SECRET_KEY"
TOOLS_FILE: Final = Path("conf", "tools.yml")
"""Where mqadmin looks for credentials, below ROCKETMQ_HOME."""
FILE_BYTES_MAX: Final = 1 << 16
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS: Final = (
    click.option(
        "--access-key",
        envvar=ACCESS_KEY_VARIABLE,
        metavar="USER",
        help="Who asks; the secret comes from --secret-key-file or AEROBEE_SECRET_KEY, or is asked"
        " for.",
    ),
    click.option(
        "--secret-key-file",
        type=_FILE,
        envvar="AEROBEE_SECRET_KEY_FILE",
        help="File that has this user's secret and nothing else.",
    ),
    click.option(
        "--credentials",
        "credentials_file",
        type=_FILE,
        envvar="AEROBEE_CREDENTIALS",
        help="File with accessKey and secretKey, as mqadmin's tools.yml. [default: conf/tools.yml"
        " of ROCKETMQ_HOME, if it is there]",
    ),
)


def credentials_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command and hand it `credentials`, None to sign nothing."""

    @functools.wraps(command)
    def with_credentials(
        *,
        access_key: str | None,
        secret_key_file: Path | None,
        credentials_file: Path | None,
        **others: Any,
    ) -> None:
        command(
            credentials=find_credentials(access_key, secret_key_file, credentials_file), **others
        )

    return with_options(with_credentials, _OPTIONS)


def find_credentials(
    access_key: str | None, secret_file: Path | None, file: Path | None
) -> SessionCredentials | None:
    """Return who asks: as options say, or a file; None where neither says anything.

    Raises UsageError for half of it: an unsigned request instead of a signed one would only
    be refused in other words.
    """
    if access_key:
        return SessionCredentials(access_key, _secret(access_key, secret_file))
    if secret_file is not None:
        raise click.UsageError("--secret-key-file goes with --access-key")
    if file is not None:
        found = read_credentials(file)
        if found is None:
            raise click.UsageError(f"{file} does not have both accessKey and secretKey")
        return found
    home = os.environ.get("ROCKETMQ_HOME")
    if home and (tools := Path(home) / TOOLS_FILE).is_file():
        return read_credentials(tools)
    return None


def read_credentials(file: Path) -> SessionCredentials | None:
    """Read accessKey, secretKey and securityToken of a file; None where one of the two is blank.

    It takes tools.yml (`accessKey: ann`), as YAML, and the lines of RocketMQ's key file
    (`AccessKey=ann`), with quotes or without.
    """
    text = secret_text(file)
    values = _yaml(text) or _pairs(text)
    name, secret = values.get("accesskey"), values.get("secretkey")
    if not name or not secret:
        return None
    return SessionCredentials(name, secret, values.get("securitytoken") or None)


def secret_text(file: Path) -> str:
    """Return the text of a file that has a secret; says so where others can read it, too."""
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise click.UsageError(f"{file}: over {FILE_BYTES_MAX} bytes, this is no file of secrets")
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        click.echo(f"warning: {file} can be read by others; chmod 600 {file}", err=True)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError(f"{file}: this is no text") from None


def _secret(name: str, file: Path | None) -> str:
    if file is not None:
        secret = secret_text(file).strip("\r\n")
    elif found := os.environ.get(SECRET_KEY_VARIABLE):
        secret = found
    elif sys.stdin.isatty():
        with ctrl_c_ends():
            secret = click.prompt(f"Secret of {name}", hide_input=True, err=True)
    else:
        raise click.UsageError(
            f"no secret for {name}: give --secret-key-file or {SECRET_KEY_VARIABLE}"
        )
    if not secret:
        raise click.UsageError(f"the secret of {name} is empty")
    return secret


def _yaml(text: str) -> Mapping[str, str]:
    """Read a mapping of YAML, each value as it is written; nothing where it is none."""
    import yaml

    try:
        found = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        key.lower(): value
        for key, value in found.items()
        if isinstance(key, str) and isinstance(value, str)
    }


def _pairs(text: str) -> Mapping[str, str]:
    """Read lines of a key and a value; keys in small letters."""
    found: dict[str, str] = {}
    for line in text.lstrip("\ufeff").splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "---")):
            continue
        at = min((at for mark in ":=" if (at := line.find(mark)) > 0), default=0)
        key, value = line[:at].strip().lower(), line[at + 1 :].strip()
        if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
            value = value[1:end]
        elif line[at] == ":":  # YAML, where this begins a comment
            value = value.partition(" #")[0].rstrip()
        found[key] = value
    return found
