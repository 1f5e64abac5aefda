"""Questions to a server and the answers that the real RocketMQ gave, kept as JSON by family.

A probe is a dict with `name`, `to` ("broker" or "namesrv"), `code`, `ext`, `body` (text, or
`{"base64": ...}`, or `{"zeros": n}`), and once recorded `answer` with `code`, `remark`, `ext` and
`body`. `${broker}` and `${client}` stand for addresses, `*` for values that differ from run to run,
`${k*1000}` in a field for a thousand times the letter.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any, Final, Self

from support.interop.cluster import Cluster
from support.interop.raw_remoting import Answer, RawClient

Probe = dict[str, Any]

VOLATILE: Final = frozenset({"msgId", "transactionId", "timestamp", "version"})
REPEATED: Final = re.compile(r"\$\{(.)\*(\d+)\}")
JAVA_TEXT: Final = re.compile(r"org\.apache|java\.|com\.alibaba|Cannot invoke|not set any response")


class Prober:
    """Puts questions to a server, all to its broker over one connection: heartbeats live on it."""

    def __init__(self, server: Cluster) -> None:
        self._addresses = {"broker": server.broker, "namesrv": server.namesrv}
        self._clients: dict[str, RawClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def ask(self, probe: Probe) -> dict[str, Any]:
        """Send a probe and return its answer with what is particular to this run masked.

        A closed connection and silence are answers too: `{"closed": true}`, `{"silent": true}`.
        """
        to = probe["to"]
        if to not in self._clients:
            self._clients[to] = RawClient(self._addresses[to])
        client = self._clients[to]
        host, port = client.local_address
        places = {address: f"${{{word}}}" for word, address in self._addresses.items()}
        places[f"{host}:{port}"] = "${client}"
        try:
            answer = client.call(probe["code"], ext_of(probe), body_of(probe))
        except TimeoutError:
            return {"silent": True}
        except ConnectionError:
            client.close()
            del self._clients[to]
            return {"closed": True}
        return masked(answer, places)


def ext_of(probe: Probe) -> dict[str, str]:
    """Return the header fields to send."""
    fields: dict[str, str] = probe["ext"]
    return {
        key: REPEATED.sub(lambda match: match[1] * int(match[2]), value)
        for key, value in fields.items()
    }


def body_of(probe: Probe) -> bytes:
    """Return the body to send."""
    body = probe.get("body")
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if "zeros" in body:
        return bytes(body["zeros"])
    return base64.b64decode(body["base64"])


def masked(answer: Answer, places: dict[str, str]) -> dict[str, Any]:
    """Return an answer as it is kept."""
    remark = answer.remark
    for address, word in places.items():
        remark = remark.replace(address, word) if remark else remark
    ext = {
        key: "*" if key in VOLATILE and value != "-1" else value
        for key, value in sorted(answer.ext.items())
    }
    kept: dict[str, Any] = {"code": answer.code, "remark": remark, "ext": ext}
    if answer.body:
        body = answer.body
        for address, word in places.items():
            body = body.replace(address.encode(), word.encode())
        try:
            kept["body"] = json.loads(body)
        except ValueError:
            kept["body"] = {"bytes": len(answer.body)}
    return kept


def comparable_remark(answer: dict[str, Any]) -> str | None:
    """Return the remark, or nothing where RocketMQ prints the insides of a Java exception."""
    remark = answer.get("remark")
    if remark is None or JAVA_TEXT.search(remark):
        return None
    return str(remark)


def load(file: Path) -> list[Probe]:
    """Read the probes of one family."""
    probes: list[Probe] = json.loads(file.read_text())
    return probes


def save(file: Path, probes: list[Probe]) -> None:
    """Write the probes of one family with their answers."""
    file.write_text(json.dumps(probes, indent=1, ensure_ascii=False) + "\n")
