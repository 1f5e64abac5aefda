"""Users and policies of a broker, and the two files that keep them."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from aerobee.broker.features.access.keys import BrokerAccessKeys
from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import Body, encode_body
from aerobee.remoting.net.access.book import AccessBook, AclsFile, UsersFile
from aerobee.remoting.net.access.kept_texts import check_keys

log = logging.getLogger(__name__)

B = TypeVar("B", bound=Body)

SAVE_INTERVAL_S: Final = 5.0
"""How soon what could not be written is tried again."""


class KeptBook:
    """Reads `users.json` and `acls.json` when it is made, and makes the users of the settings.

    A change is answered when both are on the disk; policies are written before users, so that no
    policy outlives its user. KeptFileDamaged where one cannot be read: without it everybody would
    be refused, or worse, nobody; PlainAclError where a file of RocketMQ 4.x is to be taken over
    and cannot be.
    """

    def __init__(self, folder: Path, settings: BrokerAccessKeys) -> None:
        self.book = book = AccessBook()
        self._users = TableFile(
            folder / "users.json", lambda: encode_body(book.users_file()), private=True
        )
        self._acls = TableFile(
            folder / "acls.json", lambda: encode_body(book.acls_file()), private=True
        )
        self.files = (self._acls, self._users)
        self._users.load(lambda data: book.take_users(_read(UsersFile, data)))
        self._acls.load(lambda data: book.take_acls(_read(AclsFile, data)))
        book.on_users.append(self._users.mark)
        book.on_acls.append(self._acls.mark)
        self._make_first_users(settings)
        if settings.migrate_auth_from_v1_enabled:
            from aerobee.broker.features.access.migration import migrate  # late: it is done once

            migrate(book, settings.plain_acl_folder)
        if book.white:
            log.warning(
                "access_not_asked networks=%s users=%s: white lists of RocketMQ 4.x",
                ";".join(book.white.everywhere) or "none",
                ";".join(sorted(book.white.of_users)) or "none",
            )
        self._close_files()

    def _make_first_users(self, settings: BrokerAccessKeys) -> None:
        """Make the super users of the settings; one that is there stays as he is."""
        for info in settings.first_users:
            if info.username not in self.book.users:
                self.book.create_user(info)
                log.info("user_created name=%s type=Super by=settings", info.username)

    def _close_files(self) -> None:
        """Let nobody else read what an operator has put there."""
        for file in self.files:
            for path in (file.path, file.path.with_name(file.path.name + ".bak")):
                if path.exists() and path.stat().st_mode & 0o077:
                    log.warning("secrets_were_readable file=%s", path)
                    path.chmod(0o600)

    async def flush(self) -> None:
        """Return when every change is on the disk; OSError where it refuses."""
        for file in self.files:
            await file.flush()

    async def save(self) -> None:
        """Write what could not be written before."""
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            for file in self.files:
                with suppress(OSError):  # see TableFile.error
                    await file.flush()

    def close(self) -> OSError | None:
        """Write what is not written; return what kept it from that."""
        for file in self.files:
            try:
                file.flush_now()
            except OSError as error:
                return error
        return None


def _read(kind: type[B], data: bytes) -> B:
    return decode_table(kind, check_keys(kind, data))
