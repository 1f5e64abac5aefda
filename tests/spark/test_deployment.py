"""What `deploy/spark` says to Docker, Kubernetes and spark-submit is what these understand."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from support.disks.stores import read_log
from support.interop.processes import Process
from support.lake.spark_cluster import START_SECONDS_MAX, cluster_environment
from support.runs.source_tree import ROOT, packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEPLOY = ROOT / "deploy"
USER = 3000  # of broker and readers, in all containers
SCRIPTS = sorted((DEPLOY / "spark").rglob("*.sh"))
JARS = ("core", "kubernetes", "catalyst", "sql-api")
CONFIGURATION = (
    *("org/apache/spark/internal/config/", "org/apache/spark/sql/internal/Sql"),
    *("org/apache/spark/deploy/k8s/Config", "org/apache/spark/deploy/k8s/submit/"),
)


@pytest.fixture(scope="module")
def job() -> ModuleType:
    """The job file as a module."""
    spec = importlib.util.spec_from_file_location("job", DEPLOY / "spark" / "job.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_job_goes_on_where_it_ended(
    spark: SparkSession, job: ModuleType, store: Path, tmp_path: Path
) -> None:
    """Counts, streams and exports in a local session; a second run finds nothing new."""
    logged = [row for row in read_log(store) if not row["topic"].startswith("%RETRY%")]
    retried = len(list(read_log(store))) - len(logged)  # exported as well
    assert sum(job.count(spark, str(store)).values()) == len(logged)
    for left in (len(logged), 0):
        assert job.stream(spark, str(store), str(tmp_path)) == {"messages": left}
        left = left and left + retried
        assert job.export_new(spark, str(store), str(tmp_path)) == {"messages": left}


def documents(spark: SparkSession, path: Path) -> Iterator[Any]:
    """The documents of a YAML file, read by the parser that Spark brings along."""
    assert spark._jvm is not None
    found = spark._jvm.org.yaml.snakeyaml.Yaml().loadAll(path.read_text()).iterator()
    while found.hasNext():
        yield found.next()


def test_compose_files_fit_together(spark: SparkSession) -> None:
    """Their services use images that are built, or others' of one version, and what exists."""
    services: dict[str, Any] = {}
    volumes: set[str] = set()
    for path in (DEPLOY / "compose.yaml", DEPLOY / "spark" / "compose.yaml"):
        (found,) = documents(spark, path)
        services |= dict(found["services"])
        volumes |= set(found["volumes"])
    built = {service["image"] for service in services.values() if service.get("build")}
    for service in services.values():
        assert service["image"] in built or re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        for place in (name.split(":")[0] for name in service.get("volumes") or ()):
            assert place in volumes or (DEPLOY / place).is_file()
        assert set(service.get("depends_on") or ()) <= services.keys()
        if service.get("build"):
            dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
            assert service["build"]["target"] in stages(dockerfile)


def test_kubernetes_objects_are_what_they_say(spark: SparkSession) -> None:
    """Read with the classes by which Spark itself reads a template; the store is read-only."""
    jvm: Any = spark._jvm
    serialization = jvm.io.fabric8.kubernetes.client.utils.Serialization
    folder = DEPLOY / "spark" / "kubernetes"
    pod = serialization.unmarshal((folder / "pod.yaml").read_text(), jvm.java.lang.Class.forName(
        "io.fabric8.kubernetes.api.model.Pod"
    ))  # fmt: skip
    (container,) = pod.getSpec().getContainers()
    mounts = {mount.getName(): mount.getReadOnly() for mount in container.getVolumeMounts()}
    assert mounts == {"store": True, "lake": None}
    assert {volume.getName() for volume in pod.getSpec().getVolumes()} == set(mounts)
    assert pod.getSpec().getSecurityContext().getRunAsUser() == USER
    assert not dict(pod.getAdditionalProperties()) and not dict(
        pod.getSpec().getAdditionalProperties()
    )
    submit = (folder / "submit.sh").read_text()
    assert f"podTemplateContainerName={container.getName()} " in submit
    kinds = {
        found["kind"]: found["metadata"]["name"]
        for found in documents(spark, folder / "access.yaml")
    }
    assert kinds.keys() == {"ServiceAccount", "Role", "RoleBinding"}
    assert f"serviceAccountName={kinds['ServiceAccount']} " in submit


def test_kubernetes_claims_and_labels_are_defined(spark: SparkSession) -> None:
    """What pods of Spark name is what the broker's manifest makes; each selector finds pods."""
    jvm: Any = spark._jvm
    folder = DEPLOY / "spark" / "kubernetes"
    found = list(documents(spark, folder / "broker.yaml"))
    for each in found:
        text = jvm.org.yaml.snakeyaml.Yaml().dump(each)
        known = jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(text)
        assert known.getKind() == each["kind"] and not dict(known.getAdditionalProperties())
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    claims = {name for kind, name in named if kind == "PersistentVolumeClaim"}
    (pod,) = documents(spark, folder / "pod.yaml")
    templates = [each["spec"]["template"] for each in found if each["kind"] == "Deployment"]
    labels = [dict(template["metadata"]["labels"]) for template in templates]
    specs = [pod["spec"], *(template["spec"] for template in templates)]
    for spec in specs:
        volumes = {each["name"]: each for each in spec.get("volumes") or ()}
        for volume in volumes.values():
            assert volume["persistentVolumeClaim"]["claimName"] in claims
        for container in spec["containers"]:
            assert {each["name"] for each in container.get("volumeMounts") or ()} <= volumes.keys()
        assert spec["securityContext"]["runAsUser"] == USER
    (near,) = pod["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert dict(near["labelSelector"]["matchLabels"]) in labels
    for each in found:
        if each["kind"] == "Deployment":
            assert dict(each["spec"]["selector"]["matchLabels"]) in labels
        if each["kind"] == "Service":
            assert dict(each["spec"]["selector"]) in labels
    (broker,) = named["Deployment", "aerobee-broker"]["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in broker["env"]}
    host, _, port = given["AEROBEE_NAMESRV_ADDR"].partition(":")
    (offered,) = named["Service", host]["spec"]["ports"]
    assert offered["port"] == int(port)
    assert given["AEROBEE_STORE_PATH_ROOT_DIR"] in {
        each["mountPath"] for each in broker["volumeMounts"]
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_name_settings_that_spark_has(script: Path) -> None:
    """Each --conf stands in Spark's own tables of settings, and the shell can read the script."""
    subprocess.run(["sh", "-n", script], check=True)
    names = set(re.findall(r"--conf (spark\.[\w.]+)=", script.read_text()))
    assert names
    jars = Path(pyspark.__file__).parent / "jars"
    for jar in (jar for word in JARS for jar in jars.glob(f"spark-{word}_*")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(CONFIGURATION):
                    content = archive.read(name)
                    names = {each for each in names if not named(each, content)}
    assert not names


def named(setting: str, content: bytes) -> bool:
    """Whether a class holds the setting's name, in one piece or as a family and a member."""
    family, _, member = setting.rpartition(".")
    return setting.encode() in content or (
        "authenticate" in family and family.encode() in content and member.encode() in content
    )


def stages(dockerfile: str) -> dict[str, str]:
    """Each stage of a Dockerfile and what it is made from."""
    found = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, re.MULTILINE)
    return {stage: origin for origin, stage in found}


def image(stage: str) -> tuple[str, set[str], dict[str, str]]:
    """The user of a stage of the Dockerfile, the folders that are its own, its variables."""
    dockerfile = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    text = re.split(r"^FROM .*$", dockerfile.partition(f" AS {stage}\n")[2], flags=re.MULTILINE)[0]
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == [f"{USER}:{USER}"]
    (user,) = re.findall(rf"useradd --create-home --uid {USER} --gid {USER} (\w+)", text)
    owned = " ".join(re.findall(rf"install -d -o {user} -g {user} ([^&\n]+)", text)).split()
    variables = " ".join(re.findall(r"^ENV (.*)$", text, re.MULTILINE)).split()
    return user, {*owned, f"/home/{user}"}, dict(each.split("=", 1) for each in variables)


def test_volumes_belong_to_the_user_who_writes_them(spark: SparkSession) -> None:
    """A new volume takes its owner from the folder of the image that first covers it."""
    for path in (DEPLOY / "compose.yaml", DEPLOY / "spark" / "compose.yaml"):
        (found,) = documents(spark, path)
        for service in found["services"].values():
            stage = "spark" if service["image"] == "aerobee-spark" else "servers"
            if ":" in service["image"]:
                continue  # others' images
            for volume in service.get("volumes") or ():
                assert volume.split(":")[1] in image(stage)[1]


def test_worker_of_the_image_has_a_folder_that_it_can_make(tmp_path: Path) -> None:
    """Its user cannot write to Spark's home, where a worker puts its folder if nothing is said."""
    _, owned, variables = image("spark")
    folder = variables["SPARK_WORKER_DIR"]
    assert any(Path(folder).is_relative_to(each) for each in owned)
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    (home / "work").write_text("nobody can make a folder here, not even root")
    places = {"SPARK_HOME": str(home), "SPARK_WORKER_DIR": f"{tmp_path}{folder}"}
    command = ["bin/spark-class", "org.apache.spark.deploy.worker.Worker", "spark://127.0.0.1:9"]
    command = [str(home / command[0]), *command[1:], "--host", "127.0.0.1", "--webui-port", "0"]
    worker = Process(command, tmp_path / "log", os.environ | cluster_environment() | places)
    try:
        made = Path(places["SPARK_WORKER_DIR"])
        worker.wait_until(made.is_dir, START_SECONDS_MAX, f"a worker that made {made}")
        worker.wait_until(
            lambda: "Connecting to master" in worker.log_file.read_text(),
            START_SECONDS_MAX,
            "a worker that looks for its master",
        )
    finally:
        worker.kill()


def test_the_image_has_every_package() -> None:
    """What the wheel is built of reaches the Dockerfile, whose stages are all there."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in packages()} <= set(let_in)
    built = stages(dockerfile)
    assert set(re.findall(r"--from=(\S+)", dockerfile)) <= built.keys()
    given = {f"${{{name}}}" for name in re.findall(r"^ARG (\w+)=", dockerfile, re.MULTILINE)}
    assert set(built.values()) <= built.keys() | given
    assert [*built][-1] == "servers"  # what is built when no target is named
