"""Takes users over from the files of RocketMQ 4.x, as `migrateAuthFromV1Enabled` asks at a start.

All files are read before anything changes. A user that is there already stays as he is, so the
files may stay, too, and what was changed since is not undone by them; white lists of everybody are
those of the files, as long as they are read.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.broker.features.access.plain_acl import (
    Account,
    PlainAcl,
    PlainAclError,
    read_plain_acl,
)
from aerobee.remoting.config.secret_keys import open_to_others
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.book import AccessBook

log = logging.getLogger(__name__)

MAIN: Final = "plain_acl.yml"
FOLDER: Final = "acl"
ENDINGS: Final = (".yml", ".yaml")
FILE_BYTES_MAX: Final = 8 << 20
FILES_MAX: Final = 1000
_ELSEWHERE: Final = "set plainAclPath to the folder that has it, or migrateAuthFromV1Enabled=false"


def migrate(book: AccessBook, folder: Path | None) -> None:
    """Make the users of the files that are not there yet; raises PlainAclError."""
    files = {path: _read(path) for path in _files(folder)}
    accounts = _accounts(files)
    fresh = [account for account in accounts if account.user.username not in book.users]
    for path, found in files.items():
        if told := open_to_others(path):
            log.warning("secrets_are_readable file=%s: %s", path, told)
        for warning in found.warnings:
            log.warning("plain_acl %s", warning)
        if not found.complete:
            log.warning("plain_acl file=%s: its last line has no end, it may have been cut", path)
    for account in fresh:
        try:
            book.create_user(account.user)
            if account.acl.policies:
                book.put_acl(account.acl.subject, account.acl)
        except RequestError as error:
            raise PlainAclError(f"account {account.user.username!r}: {error.remark}") from None
    white = dict.fromkeys(each for found in files.values() for each in found.white)
    book.put_white(white, {each.user.username: each.white for each in fresh})
    log.info(
        "plain_acl_migrated files=%d users=%d as_they_are=%d white=%s",
        len(files), len(fresh), len(accounts) - len(fresh), ";".join(white) or "none",
    )  # fmt: skip


def _accounts(files: dict[Path, PlainAcl]) -> list[Account]:
    """Return each account once; raises PlainAclError where two files differ about one."""
    found: dict[str, tuple[Account, Path]] = {}
    for path, content in files.items():
        for account in content.accounts:
            known, where = found.setdefault(account.user.username, (account, path))
            if known != account:
                raise PlainAclError(
                    f"account {account.user.username!r} is in {where} and, otherwise, in {path}:"
                    " remove one of them"
                )
    return [account for account, _ in found.values()]


def _files(folder: Path | None) -> Iterator[Path]:
    """Yield the files to read, the main one first; raises PlainAclError where there is none."""
    if folder is None:
        raise PlainAclError(f"{MAIN} is to be read, and ROCKETMQ_HOME is not set: {_ELSEWHERE}")
    if folder.is_file():
        yield folder
        return
    main = folder / MAIN
    try:
        found = sorted(path for path in (folder / FOLDER).rglob("*") if path.suffix in ENDINGS)
        has_main = main.exists()
    except OSError as error:
        raise PlainAclError(f"{folder} cannot be read: {error.strerror}") from None
    if not (found or has_main):
        raise PlainAclError(f"there is no {main}, and no file in {folder / FOLDER}: {_ELSEWHERE}")
    if len(found) > FILES_MAX:
        raise PlainAclError(f"{folder / FOLDER} has more than {FILES_MAX} files")
    yield from ((main,) if has_main else ())
    yield from found


def _read(path: Path) -> PlainAcl:
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PlainAclError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise PlainAclError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return read_plain_acl(data, str(path))
