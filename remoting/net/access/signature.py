"""Signatures of requests: HMAC-SHA1 over the values of the header's fields, then the body.

RocketMQ's clients of all languages sign so (AclClientRPCHook.java). Nothing in a signature is fresh
or bound to the request code: who can read it can send it again, so a network that others listen to
needs TLS.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNSIGNED_VERSION_MAX: Final = 399
"""The newest version of RocketMQ (4.9.3) whose clients add _UNIQUE_KEY_QUERY after they signed."""


def signature(secret_key: bytes, ext: Mapping[str, str], body: bytes | memoryview) -> str:
    """Return the signature of a request with these header fields, but for one that they have."""
    keys = sorted(ext) if "".join(ext).isascii() else sorted(ext, key=_java_order)
    values = [ext[key] for key in keys if key != SIGNATURE]
    signed = hmac.new(secret_key, "".join(values).encode("utf-8", "replace"), "sha1")
    if body:
        signed.update(body)
    return b64encode(signed.digest()).decode()


def is_signed(
    secret_key: bytes, ext: Mapping[str, str], body: bytes | memoryview, version: int
) -> bool:
    """Say whether a request that came as it is here is signed with this secret.

    It takes as long whether or not; `version` is the client's, as its header says.
    """
    fields: Mapping[str, str] = ext
    if version <= _UNSIGNED_VERSION_MAX and _UNIQUE_KEY_QUERY in ext:
        fields = {key: value for key, value in ext.items() if key != _UNIQUE_KEY_QUERY}
    wanted = signature(secret_key, fields, body).encode()
    return hmac.compare_digest(wanted, ext.get(SIGNATURE, "").encode("utf-8", "replace"))


def _java_order(key: str) -> bytes:
    """Return what sorts keys as Java sorts text, by its UTF-16 units."""
    return key.encode("utf-16-be", "surrogatepass")
