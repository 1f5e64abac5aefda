"""What `deploy/spark` says to Docker, Kubernetes and spark-submit is what these understand."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from support.source_tree import ROOT, packages
from support.stores import read_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEPLOY = ROOT / "deploy"
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
    """Their services use images that are built, and volumes that exist."""
    services: dict[str, Any] = {}
    volumes: set[str] = set()
    for path in (DEPLOY / "compose.yaml", DEPLOY / "spark" / "compose.yaml"):
        (found,) = documents(spark, path)
        services |= dict(found["services"])
        volumes |= set(found["volumes"])
    built = {service["image"] for service in services.values() if service.get("build")}
    for service in services.values():
        assert service["image"] in built
        assert {name.split(":")[0] for name in service.get("volumes") or ()} <= volumes
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_name_settings_that_spark_has(script: Path) -> None:
    """Each --conf stands in Spark's own tables of settings, and the shell can read the script."""
    import pyspark

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


def test_the_image_has_every_package() -> None:
    """The Dockerfile copies what the wheel is built of, between stages that are there."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE)
    assert sorted(copied) == sorted(packages())
    built = stages(dockerfile)
    assert set(re.findall(r"--from=(\S+)", dockerfile)) <= built.keys()
    given = {f"${{{name}}}" for name in re.findall(r"^ARG (\w+)=", dockerfile, re.MULTILINE)}
    assert set(built.values()) <= built.keys() | given
    assert [*built][-1] == "servers"  # what is built when no target is named
