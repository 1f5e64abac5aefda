"""What a server asks of requests."""

import msgspec


class Rules(msgspec.Struct, frozen=True):
    """Which questions a guard asks, and of which request codes it does not."""

    authenticates: bool = False
    authorizes: bool = False
    open_codes: frozenset[int] = frozenset()  # authenticationWhitelist
    free_codes: frozenset[int] = frozenset()  # authorizationWhitelist
