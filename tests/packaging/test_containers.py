"""What `deploy` says to Docker and Kubernetes is what the servers do: ports, probes, settings."""

import re
import shlex
from pathlib import Path

import pytest
from support.runs.source_tree import ROOT

from aerobee.broker.features.http import views
from aerobee.broker.features.http.feature import STOP_TIMEOUT_S
from aerobee.broker.front.ports import FAST_PORT_STEP
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli import broker_start, namesrv_start
from aerobee.namesrv.settings import NamesrvSettings

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "spark" / "kubernetes" / "broker.yaml"
COMMANDS = {"broker": broker_start.start, "namesrv": namesrv_start.start}

both = pytest.mark.parametrize("path", [COMPOSE, KUBERNETES], ids=lambda path: path.parent.name)


def ports() -> dict[str, set[int]]:
    """Return what each server listens on where nobody says otherwise."""
    broker = BrokerSettings()
    assert broker.http_port_wanted is not None
    return {
        "broker": {
            broker.listen_port,
            broker.listen_port - FAST_PORT_STEP,
            broker.http_port_wanted,
        },
        "namesrv": {NamesrvSettings().listen_port},
    }


def of_server(path: Path, name: str) -> str:
    """Return the lines about one server: its service, or the end of its deployment."""
    text = path.read_text()
    if path == COMPOSE:
        found = re.search(rf"^  {name}:\n(.*?)(?=^  \w+:|^\w)", text, re.DOTALL | re.MULTILINE)
        assert found is not None
        return found[1]
    (found_text,) = (part for part in text.split("\n---\n") if f"- name: {name}\n" in part)
    return found_text


@both
def test_every_variable_is_a_setting_that_is_taken(path: Path) -> None:
    """A name that is none would be a warning in the log of a container, which nobody reads."""
    pairs = re.findall(r"(AEROBEE_\w+)(?:: |\n +value: )(\S+)", of_server(path, "broker"))
    environ = {name: re.sub(r"\$\{.*:-(.*)\}", r"\1", value) for name, value in pairs}
    assert environ.keys() >= {"AEROBEE_NAMESRV_ADDR", "AEROBEE_HTTP_HOST"}
    settings, warnings = BrokerSettings.load(None, {}, environ)
    assert not warnings
    assert settings.http_host == "0.0.0.0", "probes come from outside of the container"
    assert str(settings.store_path_root_dir) in re.findall(r"VOLUME (\S+)", DOCKERFILE)


def test_every_command_is_one() -> None:
    """The image's own, and those of the files that start it."""
    given = [re.findall(r"^CMD \[(.*)\]", DOCKERFILE, re.MULTILINE)[-1]]
    for path in (COMPOSE, KUBERNETES):
        given += re.findall(r"command: \[(.*)\]", path.read_text())
    assert len(given) == 4
    for text in given:
        program, verb, *options = shlex.split(text.replace(",", " "))
        assert verb == "start"
        COMMANDS[program].make_context(verb, options)


def test_every_port_is_listened_on_and_open() -> None:
    """In the image, for Compose and for Kubernetes."""
    wanted = ports()
    (line,) = re.findall(r"^EXPOSE (.*)", DOCKERFILE, re.MULTILINE)
    exposed = {int(port) for port in line.split()}
    assert exposed == wanted["broker"] | wanted["namesrv"]
    for name, numbers in wanted.items():
        mapped = re.findall(r":(\d+)\"", of_server(COMPOSE, name))
        assert {int(port) for port in mapped} == numbers
        opened = re.findall(r"containerPort: (\d+)", of_server(KUBERNETES, name))
        assert {int(port) for port in opened} == numbers


@both
def test_probes_ask_what_is_answered(path: Path) -> None:
    """At the port of HTTP; restarts hang on the loop alone, which a full disk does not stop."""
    text = of_server(path, "broker")
    answered = set(re.findall(r"add_get\(\"([^\"]+)", Path(views.__file__).read_text()))
    http_port = str(BrokerSettings().http_port_wanted)
    asked = re.findall(r"path: (/\w+z)\n +port: (\d+)", text)
    asked += [(path, port) for port, path in re.findall(r"127.0.0.1:(\d+)(/\w+)'", text)]
    assert asked and {address for address, _ in asked} <= answered
    assert {port for _, port in asked} == {http_port}
    if path == KUBERNETES:
        probes = dict(re.findall(r"(\w+)Probe:\n +httpGet:\n +path: (\S+)", text))
        assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_a_stop_has_its_time() -> None:
    """Longer than all that a stop waits for: the disk, the nameservers, HTTP."""
    settings = BrokerSettings()
    needed_s = 2 * settings.store.sync_flush_timeout_ms / 1000 + STOP_TIMEOUT_S
    needed_s += settings.announce_timeout_ms / 1000
    unit = (DEPLOY / "systemd" / "aerobee-broker.service").read_text()
    given = re.findall(r"stop_grace_period: (\d+)s", of_server(COMPOSE, "broker"))
    given += re.findall(r"GracePeriodSeconds: (\d+)", of_server(KUBERNETES, "broker"))
    given += re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert len(given) == 3
    assert min(map(int, given)) > 2 * needed_s


def test_one_user_owns_the_store() -> None:
    """The image's and the pods'; Kubernetes gives the volume to the same one."""
    users = set(re.findall(r"--uid (\d+)", DOCKERFILE))
    text = KUBERNETES.read_text()
    users |= set(re.findall(r"(?:runAsUser|fsGroup): (\d+)", text))
    assert len(users) == 1
    assert text.count("runAsNonRoot: true") == 2
    assert DOCKERFILE.rindex("USER aerobee") > DOCKERFILE.rindex("RUN useradd")


@pytest.mark.parametrize("name", ["broker", "namesrv"])
def test_no_server_takes_all_memory(name: str) -> None:
    """A limit, and a request below it; none of CPU, which would stop the loop in between."""
    found = re.search(
        r"requests:\n.*?memory: (\d+)([MG])i\n +limits:\n +memory: (\d+)([MG])i\b",
        of_server(KUBERNETES, name),
        re.DOTALL,
    )
    assert found is not None
    asked, limit = (int(found[n]) << {"M": 20, "G": 30}[found[n + 1]] for n in (1, 3))
    assert (128 << 20) <= asked < limit
