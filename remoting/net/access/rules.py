"""What a server asks of requests."""

import msgspec

from aerobee.remoting.net.access.certificates import CertificateUser


class Rules(msgspec.Struct, frozen=True):
    """Which questions a guard asks, of which request codes it does not, and whom it knows."""

    authenticates: bool = False
    authorizes: bool = False
    open_codes: frozenset[int] = frozenset()  # authenticationWhitelist
    free_codes: frozenset[int] = frozenset()  # authorizationWhitelist
    certificate_users: tuple[CertificateUser, ...] = ()
