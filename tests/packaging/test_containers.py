"""What `deploy` says to Docker and Kubernetes is what the servers do: ports, probes, settings."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.runs.source_tree import ROOT, packages

from aerobee.broker.features.http import views
from aerobee.broker.features.http.feature import STOP_TIMEOUT_S
from aerobee.broker.front.ports import FAST_PORT_STEP
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli import broker_start, namesrv_start
from aerobee.cli.health import health
from aerobee.namesrv.settings import NamesrvSettings

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "spark" / "kubernetes" / "broker.yaml"
COMMANDS = {
    "broker start": broker_start.start,
    "namesrv start": namesrv_start.start,
    "aerobee health": health,
}
SERVERS = {"broker": "broker", "broker-b": "broker", "namesrv": "namesrv"}
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
CONSOLE_PORT = 8082


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod of each server, as the file for Spark on Kubernetes has it."""
    found = {}
    for each in yaml.safe_load_all(KUBERNETES.read_text()):
        if each["kind"] == "Deployment":
            pod = each["spec"]["template"]["spec"]
            found[pod["containers"][0]["name"]] = pod
    return found


def container(server: str) -> dict[str, Any]:
    """Return the one container of a server's pod."""
    (one,) = pods()[server]["containers"]
    assert isinstance(one, dict)
    return one


def broker_variables() -> list[dict[str, str]]:
    """Return what each broker of Compose, and the one of Kubernetes, has in its environment."""
    found = [SERVICES[name]["environment"] for name, kind in SERVERS.items() if kind == "broker"]
    found.append({each["name"]: each["value"] for each in container("broker")["env"]})
    return [
        {name: re.sub(r"\$\{.*:-(.*)\}", r"\1", str(value)) for name, value in each.items()}
        for each in found
    ]


def listening(settings: BrokerSettings) -> set[int]:
    """Return where a broker listens."""
    assert settings.http_port_wanted is not None
    port = settings.listen_port
    return {port, port - FAST_PORT_STEP, settings.http_port_wanted}


@pytest.mark.parametrize("environ", broker_variables())
def test_every_variable_is_a_setting_that_is_taken(environ: dict[str, str]) -> None:
    """A name that is none would be a warning in the log of a container, which nobody reads."""
    assert environ.keys() >= {"AEROBEE_NAMESRV_ADDR", "AEROBEE_HTTP_HOST"}
    settings, warnings = BrokerSettings.load(None, {}, environ)
    assert not warnings
    assert settings.http_host == "0.0.0.0", "probes come from outside of the container"
    assert f'"{settings.store_path_root_dir}"' in re.findall(r"VOLUME (.+)", DOCKERFILE)[0]


def test_two_brokers_have_names_volumes_and_ports_of_their_own() -> None:
    """Which clients dial as they are told them, so that the host's are the container's."""
    made = [BrokerSettings.load(None, {}, environ)[0] for environ in broker_variables()[:2]]
    assert len({settings.broker_name for settings in made}) == 2
    assert not listening(made[0]) & listening(made[1])
    stores = [SERVICES[name]["volumes"] for name in ("broker", "broker-b")]
    assert stores[0] != stores[1]
    for name, settings in zip(("broker", "broker-b"), made, strict=True):
        pairs = [port.rsplit(":", 2)[-2:] for port in SERVICES[name]["ports"]]
        assert {int(inside) for _, inside in pairs} == listening(settings)
        assert all(outside == inside for outside, inside in pairs)
    targets = (DEPLOY / "monitoring" / "prometheus.yaml").read_text()
    for name, settings in zip(("broker", "broker-b"), made, strict=True):
        assert f'"{name}:{settings.http_port_wanted}"' in targets


def test_every_command_is_one() -> None:
    """Those of the files that start the image, and its own questions about health."""
    given = [SERVICES[name]["command"] for name in SERVERS]
    given += [SERVICES[name]["healthcheck"]["test"][1:] for name in (*SERVERS, "console")]
    given += [container(name)["command"] for name in ("broker", "namesrv")]
    given += [re.findall(r"CMD \[(.*)\]", DOCKERFILE)[-1].replace("/opt/aerobee/bin/", "")]
    for words in given:
        program, verb, *options = words if isinstance(words, list) else shlex.split(
            words.replace(",", " ")
        )  # fmt: skip
        COMMANDS[f"{program} {verb}"].make_context(verb, options)


def test_every_port_is_listened_on_and_open() -> None:
    """In the image, for Compose and for Kubernetes."""
    (line,) = re.findall(r"^EXPOSE (.*)", DOCKERFILE, re.MULTILINE)
    ours, namesrv = listening(BrokerSettings()), {NamesrvSettings().listen_port}
    assert {int(port) for port in line.split()} == ours | namesrv | {CONSOLE_PORT}
    assert SERVICES["namesrv"]["ports"] == [f"{port}:{port}" for port in namesrv]
    for name, numbers in (("broker", ours), ("namesrv", namesrv)):
        assert {each["containerPort"] for each in container(name)["ports"]} == numbers


def test_probes_ask_what_is_answered() -> None:
    """At the port of HTTP; restarts hang on the loop alone, which a full disk does not stop."""
    answered = set(re.findall(r"add_get\(\"([^\"]+)", Path(views.__file__).read_text()))
    probes = {
        each: container("broker")[f"{each}Probe"]["httpGet"]
        for each in ("startup", "liveness", "readiness")
    }
    paths = {name: probe["path"] for name, probe in probes.items()}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert set(paths.values()) <= answered
    assert {probe["port"] for probe in probes.values()} == {BrokerSettings().http_port_wanted}


def test_a_stop_has_its_time() -> None:
    """Longer than all that a stop waits for: the disk, the nameservers, HTTP."""
    settings = BrokerSettings()
    needed_s = 2 * settings.store.sync_flush_timeout_ms / 1000 + STOP_TIMEOUT_S
    needed_s += settings.announce_timeout_ms / 1000
    unit = (DEPLOY / "systemd" / "aerobee-broker.service").read_text()
    given = [SERVICES[name]["stop_grace_period"].rstrip("s") for name in SERVERS]
    given.append(str(pods()["broker"]["terminationGracePeriodSeconds"]))
    given += re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert len(given) == 5
    assert min(map(int, given)) > 2 * needed_s


def test_one_user_owns_the_store() -> None:
    """RocketMQ's own number, by which its volumes can be taken over; and never root's."""
    users = set(re.findall(r"--[ug]id (\d+)", DOCKERFILE))
    users |= set(re.findall(r"^USER (\d+):\d+", DOCKERFILE, re.MULTILINE))
    for file in (KUBERNETES, KUBERNETES.with_name("pod.yaml")):
        text = file.read_text()
        users |= set(re.findall(r"(?:runAsUser|fsGroup): (\d+)", text))
        assert "runAsNonRoot: true" in text
    assert users == {"3000"}
    for stage in DOCKERFILE.split("\nFROM ")[-2:]:
        assert stage.rindex("USER 3000:3000") > stage.rindex("RUN ")


@pytest.mark.parametrize("name", [*SERVERS, "console"])
def test_a_container_may_do_nothing_that_it_need_not(name: str) -> None:
    """Its root is read-only, and all that only root may do is taken from it."""
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", ["broker", "namesrv"])
def test_no_server_takes_all_memory(name: str) -> None:
    """A limit, and a request below it; none of CPU, which would stop the loop in between."""
    resources = container(name)["resources"]
    asked, limit = (
        int(text[:-2]) << {"Mi": 20, "Gi": 30}[text[-2:]]
        for text in (resources["requests"]["memory"], resources["limits"]["memory"])
    )
    assert (128 << 20) <= asked < limit
    assert "cpu" not in resources["limits"]


def test_an_image_is_built_of_what_is_packaged() -> None:
    """No build of this machine gets into it, and no folder of the package is left out."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*" and "**/*.so" in lines
    taken = {line[1:] for line in lines if line.startswith("!")}
    assert set(packages()) <= taken
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for path in source.split():
            assert path == "." or any(Path(path).is_relative_to(each) for each in taken), path


def test_grafana_is_given_what_there_is() -> None:
    """Every file that a container mounts is one of this tree."""
    mounted = [
        line.split(":")[0]
        for name in ("prometheus", "grafana")
        for line in SERVICES[name]["volumes"]
        if line.startswith("./")
    ]
    assert len(mounted) == 6
    assert all((DEPLOY / path).is_file() for path in mounted)
