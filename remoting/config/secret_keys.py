"""Keys whose values are nobody's business: how they are told apart, hidden, and read from files.

Each has a second key that names a file instead, `tls.server.keyPasswordFile` of
`tls.server.keyPassword`: what Docker, Kubernetes and systemd hand to a process, and what stands
neither in a settings file nor in the list of processes.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SECRETS: Final = (
    "password", "secret", "credential", "token", "accesskey", "initauthenticationuser",
    "exporterheader",
)  # fmt: skip
"""A key that holds one of these words has a value that is nobody's business."""
HIDDEN: Final = "******"
FILE: Final = "File"
"""What the key of a file adds to that of its secret."""
SECRET_BYTES_MAX: Final = 64 << 10
_EVERYBODY: Final = 0o007
_OTHERS: Final = 0o077


def plain_key(key: str) -> str:
    """Reduce a key to what all its spellings share."""
    return key.strip().replace("_", "").replace("-", "").replace(".", "").lower()


def is_secret(key: str) -> bool:
    """Whether the value of a key is nobody's business."""
    plain = plain_key(key)
    return any(word in plain for word in SECRETS)


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings as they may be shown to whoever asks: passwords become asterisks."""
    return {key: HIDDEN if value and is_secret(key) else value for key, value in values.items()}


def file_key_of(key: str) -> str:
    """Return the key, in plain spelling, whose secret a file key names; "" for other keys."""
    plain, ending = plain_key(key), FILE.lower()
    of = plain.removesuffix(ending)
    return of if plain.endswith(ending) and is_secret(of) else ""


def read_secret(path: str) -> str:
    """Read what a file has for its secret, without the end of its last line.

    Raises ValueError that says what is wrong with the file, and nothing of what is in it.
    """
    if not path.strip():
        raise ValueError("names no file")
    try:
        file = Path(path.strip()).expanduser()
        with file.open("rb") as stream:
            data = stream.read(SECRET_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{path.strip()} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is no text in UTF-8") from None
    except (RuntimeError, ValueError):  # the home of nobody, the character 0
        raise ValueError("names no file that can be opened") from None
    if len(data) > SECRET_BYTES_MAX:
        raise ValueError(f"{file} has more than {SECRET_BYTES_MAX} bytes, it is no secret")
    text = text.removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise ValueError(f"{file} is empty")
    return text


def open_to_others(path: Path) -> str:
    """Say that others than its owner can use a file that holds secrets; "" where they cannot.

    A group may use what is not this process's own: Kubernetes mounts secrets so, for the group.
    """
    try:
        found = path.expanduser().stat()
    except (OSError, RuntimeError):
        return ""
    mode = stat.S_IMODE(found.st_mode)
    if not mode & (_EVERYBODY if found.st_uid != os.geteuid() else _OTHERS):
        return ""
    return f"{path} holds a secret and others can use it (mode {mode:04o}): chmod 600 {path}"
