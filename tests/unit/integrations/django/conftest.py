"""A Django project without files, in the tests' process."""

from collections.abc import Iterator

import django
import pytest
from django.conf import settings
from django.db import connections

from aerobee.testing import ClusterThread


@pytest.fixture(scope="session", autouse=True)
def project(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Configure Django once; it cannot be done twice in a process."""
    if not settings.configured:
        file = tmp_path_factory.mktemp("django") / "project.db"  # one in memory is never closed
        settings.configure(
            INSTALLED_APPS=["aerobee.integrations.django"],
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file}},
            AEROBEE={},
        )
        django.setup()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """Serve for a module."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture
def fresh(cluster: ClusterThread) -> Iterator[ClusterThread]:
    """Let the project use the cluster, and forget its producer afterwards."""
    from django.test import override_settings

    from aerobee.integrations.django import producing

    with override_settings(AEROBEE={"NAMESRV": cluster.namesrv_addr}):
        yield cluster
    if producing._of_process._producer is not None:
        producing._of_process._producer.close()
    producing._of_process.forget()
    connections.close_all()
