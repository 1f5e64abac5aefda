"""The chart of `deploy/helm`, rendered by Helm itself and held against Kubernetes' own schemas."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.interop import toolchain
from support.runs.source_tree import ROOT

from aerobee.broker.features.http.feature import STOP_TIMEOUT_S
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli import broker_start, namesrv_start
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.config.settings import ServerSettings

pytestmark = [pytest.mark.interop, pytest.mark.needs("helm"), pytest.mark.timeout(900)]

CHART: Final = ROOT / "deploy" / "helm"
VERSIONS: Final = ("1.27", "1.33")
SETTINGS: Final[dict[str, type[ServerSettings]]] = {
    "broker": BrokerSettings,
    "namesrv": NamesrvSettings,
}
COMMANDS: Final = {"broker": broker_start.start, "namesrv": namesrv_start.start}
ALL_OF_IT: Final = (
    "access.enabled=true",
    "access.existingSecret=access",
    "tls.enabled=true",
    "tls.existingSecret=pair",
    "console.enabled=true",
    "console.existingSecret=console",
    "console.settings.consoleRoleMax=operator",
    "broker.advertise=node",
    "broker.storage.storageClassName=fast",
    "broker.settings.flushDiskType=SYNC_FLUSH",
    "broker.settings.maxMessageSize=8388608",
    "broker.settings.messageIndexEnable=false",
    "broker.nodeSelector.disk=ssd",
    "namesrv.podAnnotations.team=queues",
    "imagePullSecrets[0].name=pull",
    "networkPolicy.clients[0].namespaceSelector.matchLabels.team=shop",
    "networkPolicy.monitoring[0].namespaceSelector.matchLabels.team=watch",
)
CHOICES: Final = {"as it is": (), "all of it": ALL_OF_IT}
chosen = pytest.mark.parametrize("choice", CHOICES)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm, which asks no cluster for this."""
    command = [toolchain.helm(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def render(*values: str) -> "subprocess.CompletedProcess[str]":
    """Have Helm write out the chart."""
    options = [word for value in values for word in ("--set", value)]
    return helm("template", "aerobee", str(CHART), "--namespace", "queues", *options)


def resources(*values: str) -> list[dict[str, Any]]:
    """Return what the chart makes."""
    done = render(*values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def kind(found: list[dict[str, Any]], name: str, part: str) -> dict[str, Any]:
    """Return the resource of a kind that belongs to a part."""
    (one,) = (
        each
        for each in found
        if each["kind"] == name
        and each["metadata"]["labels"]["app.kubernetes.io/component"] == part
    )
    return one


def pods(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pod of each part."""
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["template"]["spec"]
        for each in found
        if each["kind"] in ("StatefulSet", "Deployment")
    }


@chosen
def test_helm_has_nothing_against_it(choice: str) -> None:
    """The chart and the values that are chosen."""
    options = [word for value in CHOICES[choice] for word in ("--set", value)]
    done = helm("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
@chosen
def test_kubernetes_takes_all_that_it_makes(choice: str, version: str, tmp_path: Path) -> None:
    """Nothing that its schemas do not have: a misspelt field would be dropped in silence."""
    found = resources(*CHOICES[choice])
    file = tmp_path / "rendered.json"
    file.write_text(json.dumps(found))
    check = (
        "import json, sys, kubernetes_validate as validate\n"
        "for each in json.load(open(sys.argv[1])):\n"
        "    validate.validate(each, sys.argv[2], strict=True)\n"
    )
    packages = toolchain.python_packages("kubernetes-validate", "kubernetes-validate==1.37.0")
    command = [sys.executable, "-c", check, str(file), version]
    environment = {"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    kinds = {each["kind"] for each in found}
    assert {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"} <= kinds
    assert ("HorizontalPodAutoscaler" in kinds) == ("Deployment" in kinds) == bool(CHOICES[choice])


def variables(container: dict[str, Any], pod: str) -> dict[str, str]:
    """Return what the environment of a container is, as Kubernetes makes it of the pod."""
    fields = {"metadata.name": pod, "status.hostIP": "10.0.0.1"}
    environ: dict[str, str] = {}
    for each in container["env"]:
        value = each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for name, known in environ.items():
            value = value.replace(f"$({name})", known)
        environ[each["name"]] = value
    return environ


@chosen
def test_a_servers_variables_are_settings_that_it_takes(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the values that were chosen, and an address that a client in its place can dial."""
    monkeypatch.setattr(os, "geteuid", lambda: -1)  # secrets are mounted as root's, for a group
    found = resources(*CHOICES[choice])
    for part, pod in pods(found).items():
        if part not in SETTINGS:
            continue
        (container,) = pod["containers"]
        environ = variables(container, f"aerobee-{part}-1")
        for name in [each for each in environ if each.endswith("_FILE")]:
            secret = tmp_path / Path(environ[name]).name
            secret.write_text('{"username":"u","password":"p","accessKey":"u","secretKey":"p"}')
            secret.chmod(0o440)
            environ[name] = str(secret)
        settings, warnings = SETTINGS[part].load(None, {}, environ)
        assert not warnings
        program, verb, *options = container["args"]
        COMMANDS[program].make_context(verb, options)
        if isinstance(settings, BrokerSettings):
            on_node = bool(CHOICES[choice])
            name = "aerobee-broker-1.aerobee-broker.queues.svc.cluster.local"
            assert settings.broker_ip1 == ("10.0.0.1" if on_node else name)
            assert settings.broker_name == "aerobee-broker-1"
            assert settings.namesrv_addr.split(";") == [
                f"aerobee-namesrv-{n}.aerobee-namesrv.queues.svc.cluster.local:9876" for n in (0, 1)
            ]
            assert str(settings.store_path_root_dir) == "/home/rocketmq/store"
            if on_node:
                assert settings.flush_disk_type == "SYNC_FLUSH"
                assert settings.max_message_size == 8388608
                assert not settings.message_index_enable
                assert settings.authentication_enabled and settings.credentials is not None


@chosen
def test_every_pod_is_one_that_may_do_nothing(choice: str) -> None:
    """Kubernetes' restricted standard; what it writes has a volume, its secrets are its own."""
    for part, pod in pods(resources(*CHOICES[choice])).items():
        assert (
            pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 3000
        )
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        (container,) = pod["containers"]
        may = container["securityContext"]
        assert may["readOnlyRootFilesystem"] and not may["allowPrivilegeEscalation"], part
        assert may["capabilities"] == {"drop": ["ALL"]}
        assert "cpu" not in container["resources"]["limits"], "it would stop the loop in between"
        for volume in pod["volumes"]:
            assert volume.get("secret", {}).get("defaultMode", 0o440) == 0o440


def test_probes_ports_and_times_are_the_servers() -> None:
    """Restarts hang on the loop alone; a stop has its time; a start that recovers, too."""
    found = resources()
    (broker,) = pods(found)["broker"]["containers"]
    settings = BrokerSettings()
    assert {each["name"]: each["containerPort"] for each in broker["ports"]} == {
        "broker": settings.listen_port,
        "fast": settings.listen_port - 2,
        "http": settings.http_port_wanted,
    }
    paths = {each: broker[f"{each}Probe"]["httpGet"]["path"] for each in
             ("startup", "liveness", "readiness")}  # fmt: skip
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert {broker[f"{each}Probe"]["httpGet"]["port"] for each in paths} == {"http"}
    startup = broker["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 3600
    needed_s = 2 * settings.store.sync_flush_timeout_ms / 1000 + STOP_TIMEOUT_S
    needed_s += settings.announce_timeout_ms / 1000
    assert pods(found)["broker"]["terminationGracePeriodSeconds"] > 2 * needed_s
    (namesrv,) = pods(found)["namesrv"]["containers"]
    assert [each["containerPort"] for each in namesrv["ports"]] == [NamesrvSettings().listen_port]
    retention = kind(found, "StatefulSet", "broker")["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert retention == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    for part in SETTINGS:
        service = kind(found, "Service", part)["spec"]
        assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
        assert kind(found, "PodDisruptionBudget", part)["spec"]["maxUnavailable"] == 1


def test_network_policies_let_in_who_is_named_and_the_parts_themselves() -> None:
    """Without the brokers' own calls to nameservers nothing would be found."""
    found = resources(*ALL_OF_IT)
    for part, ports in (("namesrv", {"namesrv"}), ("broker", {"broker", "fast"})):
        rule = kind(found, "NetworkPolicy", part)["spec"]["ingress"][0]
        assert {each["port"] for each in rule["ports"]} == ports
        assert rule["from"][0] == {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
        inside = {
            each["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for each in rule["from"][1:]
        }
        assert inside == {"broker", "namesrv", "console"}
    (open_rule, _) = kind(resources(), "NetworkPolicy", "broker")["spec"]["ingress"]
    assert "from" not in open_rule


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("broker.replica=3", "replica"),
        ("broker.replicas=0", "replicas"),
        ("broker.settings.brokerIP1=10.0.0.1", "brokerIP1"),
        ("broker.settings.initAuthenticationUser=root", "initAuthenticationUser"),
        ("broker.advertise=pods", "advertise"),
        ("broker.storage.size=100 GB", "size"),
        ("access.enabled=true", "existingSecret"),
        ("tls.enabled=true", "existingSecret"),
        ("console.enabled=true", "existingSecret"),
    ],
)
def test_what_would_not_work_is_refused(value: str, said: str) -> None:
    """With the name of the value, before anything is installed."""
    done = render(value)
    assert done.returncode != 0 and said in done.stderr, done.stdout[:500] + done.stderr


def test_the_notes_say_how_clients_come_in(tmp_path: Path) -> None:
    """And that nobody is asked who he is, where that is so."""
    chart = Path(
        shutil.copytree(CHART, tmp_path / "helm")
    )  # notes are rendered for a cluster alone
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'apiVersion: v1\nkind: Notes\nsaid: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    )
    done = helm("template", "aerobee", str(chart), "-n", "queues", "-s", "templates/notes.yaml")
    assert done.returncode == 0, done.stderr
    said = yaml.safe_load(done.stdout)["said"]
    assert "aerobee-namesrv-0.aerobee-namesrv.queues.svc.cluster.local:9876" in said
    assert "Nobody is asked who he is" in said and "broker.advertise=node" in said


def test_the_chart_has_the_version_of_the_program() -> None:
    """Its image is the one of this tree."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (version,) = re.findall(
        r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert chart["appVersion"] == version
