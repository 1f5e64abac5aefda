"""A path is a folder of this machine, or is refused by the name of what it is instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.lake.exports import go_on, grown, stored, visible

from aerobee.cli.main import main
from aerobee.cli.program import EXIT_USAGE
from aerobee.spark import export, exported_files, read_export
from aerobee.spark.at_rest.stores import find_stores
from aerobee.spark.errors import OptionError
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.sinks.options import parse_sink_options

pytestmark = pytest.mark.usefixtures("inline")

ELSEWHERE = [
    "s3://bucket/lake",
    "s3a://bucket/lake",
    "hdfs://nn:8020/lake",
    "dbfs:/lake",
    "abfss://c@account.dfs.core.windows.net/lake",
    "s3:bucket",
    "S3://bucket/lake",
    " s3://bucket/lake",
]


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with five messages that nobody changes: most tests refuse before they read it."""
    return grown(tmp_path_factory.mktemp("five") / "store", 5)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that relative paths would lead to."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_lake_elsewhere_is_refused_by_name(
    five: Path, here: Path, place: str, kind: type[Any]
) -> None:
    """An export to a bucket must not succeed in a folder of that name beside the program."""
    target, scheme = kind(place), place.partition(":")[0].lower()
    for call in (
        lambda: export(five, target),
        lambda: plan_to(five, target),
        lambda: exported_files(target),
        lambda: read_export(None, target),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionError, match=rf"{scheme}:.*local"):
            call()
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--overwrite"]])
def test_command_refuses_a_bucket(five: Path, here: Path, more: list[str]) -> None:
    """Before it reads anything, with the code of a wrong call; so does a dry run."""
    args = ["export", "--store", str(five), "--to", "s3://bucket/lake", *more]
    found = CliRunner().invoke(main, args)
    assert found.exit_code == EXIT_USAGE and "s3:" in found.stderr and not found.stdout
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_store_elsewhere_is_refused_by_name(five: Path, here: Path, place: str) -> None:
    """Alone, with a name, in a list and as a pattern; not looked for in a folder named so."""
    (here / place).mkdir(parents=True)
    scheme = place.partition(":")[0].lower()
    for path in (place, f"a={place}", [place], f"{five}, {place}", f"{place}/*"):
        with pytest.raises(OptionError, match=rf"option path.*{scheme}:.*namesrv"):
            find_stores(path)


@pytest.mark.parametrize("scheme", ["file:", "file://", "FILE:", "file://localhost"])
def test_local_scheme_leads_to_the_folder_itself(tmp_path: Path, here: Path, scheme: str) -> None:
    """`file:///data/lake` is /data/lake, for whoever writes and for whoever reads."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    assert go_on(f"{scheme}{store}", f"{scheme}{lake}").messages == 10
    assert visible(lake) == stored(store) and list(here.iterdir()) == []
    assert exported_files(f"{scheme}{lake}") == exported_files(lake)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file://server/lake", "another machine"),
        ("file:lake", "begins with a slash"),
        ("~/lake", "shell"),
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "zero byte"),
    ],
)
def test_what_would_be_a_folder_of_a_strange_name_is_refused(
    five: Path, here: Path, place: str, reason: str
) -> None:
    """An unset variable of a shell, a home that nobody has filled in, another machine's file."""
    with pytest.raises(OptionError, match=reason):
        export(five, place)
    assert list(here.iterdir()) == []


def test_folders_with_such_names_can_still_be_named(tmp_path: Path, here: Path) -> None:
    """By a path that begins with a dot or a slash, colons are signs as all others."""
    store = grown(here / "s3:store", 5)
    assert go_on("./s3:store", "./s3:lake").messages == 5
    assert visible(here / "s3:lake") == stored(store, "s3:store")
    assert [each.label for each in find_stores("./s3*")] == ["s3:store"]


def test_one_checkpoint_is_one_sink_however_it_is_written() -> None:
    """Else a query that is started with another spelling repeats its last micro-batch."""

    def sink(checkpoint: str) -> str:
        options = {"namesrv": "127.0.0.1:9", "topic": "t", "checkpointLocation": checkpoint}
        return parse_sink_options(options, stream=True).sink

    assert len({sink(each) for each in ("/c/d", "/c/d/", "file:/c/d", "file:///c//d/")}) == 1
    assert len({sink(each) for each in ("s3a://b/c", "s3a://b/c/")}) == 1
    assert len({sink(each) for each in ("/c", "/d", "s3a://b/c", "s3a://c/c", "dbfs:/c")}) == 5
