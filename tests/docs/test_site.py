"""The site of documents is built strictly, and what it says about the code is all that there is."""

import html
import re
from pathlib import Path, PurePosixPath

import click
import pytest
from support.code_names import REQUEST_NAMES, RESPONSE_NAMES
from support.runs.source_tree import ROOT

import aerobee.admin
import aerobee.client
import aerobee.testing
from aerobee.broker.processors.families import SERVED_BY_CONNECTION
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli.main import main
from aerobee.console.settings import ConsoleSettings
from aerobee.namesrv.processors import FAMILIES
from aerobee.namesrv.settings import NamesrvSettings
from deploy.documents.building import BuildError, Site, build
from deploy.documents.codes_page import broker_table
from deploy.documents.commands_page import tree
from deploy.documents.links import check
from deploy.documents.metrics_page import metric_help
from deploy.documents.navigation import NavigationError, navigation

SECONDS_MAX = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Give the site, built as `make docs` does it."""
    pytest.importorskip("zensical")
    return build(tmp_path_factory.mktemp("site"))


def page(site: Site, name: str) -> str:
    """Return the text of a built page."""
    return html.unescape((site.folder / name).read_text())


def missing(text: str, names: set[str]) -> set[str]:
    """Return the names that a page does not have in the type of code."""
    return names - set(re.findall(r"<code>([^<]+)</code>", text))


@pytest.mark.timeout(SECONDS_MAX)
def test_every_setting_is_in_it(site: Site) -> None:
    """With its default, and when a change works."""
    text = page(site, "reference/broker_settings.html")
    assert missing(text, set(BrokerSettings.keys().values())) == set()
    assert missing(text, set(BrokerSettings.promises)) == set()
    row = next(row for row in text.split("<tr>") if "<code>fileReservedTime</code>" in row)
    assert "<code>72</code>" in row and "at once, guarded" in row
    row = next(row for row in text.split("<tr>") if "<code>listenPort</code>" in row)
    assert "<code>10911</code>" in row and "after a restart" in row
    text = page(site, "reference/namesrv_settings.html")
    assert missing(text, set(NamesrvSettings.keys().values())) == set()
    text = page(site, "reference/console_settings.html")
    assert missing(text, set(ConsoleSettings.keys().values())) == set()


def test_every_code_is_in_it(site: Site) -> None:
    """Those that are served with their fields, others with the reason; answers with their words."""
    text = page(site, "reference/request_codes.html")
    assert missing(text, set(REQUEST_NAMES.values())) == set()
    served = set(broker_table()) | SERVED_BY_CONNECTION | {c for f in FAMILIES for c in f.table}
    first, _, unserved = text.partition('id="not-served-by-the-broker"')
    assert missing(first, {str(code) for code in served}) == set()
    assert "END_TRANSACTION" in first and "END_TRANSACTION" not in unserved
    row = next(row for row in first.split("<tr>") if "<code>QUERY_CONSUMER_OFFSET</code>" in row)
    assert missing(row, {"consumerGroup", "queueId", "setZeroIfNotFound?", "offset"}) == set()
    row = next(row for row in first.split("<tr>") if "<code>SEND_MESSAGE_V2</code>" in row)
    assert missing(row, {"a", "n?", "msgId", "queueOffset", "310"}) == set()
    row = next(row for row in first.split("<tr>") if ">GET_EARLIEST_MSG_STORETIME<" in row)
    assert missing(row, {"timestamp"}) == set() and missing(row, {"offset"}) == {"offset"}
    row = next(row for row in first.split("<tr>") if "<code>AUTH_CREATE_ACL</code>" in row)
    assert "<td>whose policies" in row, "what it does is said by its header"
    answers = page(site, "reference/answer_codes.html")
    assert missing(answers, set(RESPONSE_NAMES.values())) == set()
    assert "topic[…] not exist" in answers


def test_every_metric_is_in_it(site: Site) -> None:
    """Those of features, too."""
    names = set(metric_help())
    assert {"aerobee_compaction_topics", "rocketmq_half_messages", "aerobee_log_bytes"} <= names
    assert missing(page(site, "reference/metrics.html"), names) == set()


def test_every_command_is_in_it(site: Site) -> None:
    """With the options that are its own."""
    text = page(site, "reference/commands.html")
    paths = [each.command_path for each in tree(click.Context(main, info_name="aerobee"))]
    assert {"aerobee topic create", "aerobee broker start", "aerobee dlq resend"} <= set(paths)
    headings = {re.sub("<[^>]+>", "", each) for each in re.findall(r"<h[23][^>]*>(.*?)</h", text)}
    assert not {path for path in paths if not any(h.startswith(path) for h in headings)}
    assert "--queues" in text and "--dry-run" in text


@pytest.mark.parametrize("package", [aerobee.client, aerobee.admin, aerobee.testing])
def test_every_public_name_is_in_it(site: Site, package: object) -> None:
    """Of the packages that programs use."""
    name = str(vars(package)["__name__"])
    text = page(site, f"reference/{name.removeprefix('aerobee.')}_api.html")
    headings = set(re.findall(r'<h2 id="[^"]+">(\w+)', text))
    assert set(vars(package)["__all__"]) <= headings


def test_addresses_elsewhere_are_listed(site: Site) -> None:
    """Nobody looks at them, but they can be read in one place."""
    listed = site.listed.read_text()
    assert all(url in listed for url in site.elsewhere)
    assert not any("127.0.0.1" in url for url in site.elsewhere)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """To a page that is not there, and to a place that a page does not have."""
    (tmp_path / "a.html").write_text(
        '<h2 id="here">x</h2><a href="#here">1</a><a href="#there">2</a><a href="b.html#on">3</a>'
        '<a href="c.html">4</a><img src="d.svg"><a href="https://www.apache.org/x">5</a>'
    )
    (tmp_path / "b.html").write_text('<a id="on" href="/a.html">back</a>')
    links = check(tmp_path)
    assert links.broken == [
        "a.html: #there is no place in that page",
        "a.html: c.html is no file",
        "a.html: d.svg is no file",
    ]
    assert links.elsewhere == {"https://www.apache.org/x": ["a.html"]}


def test_a_page_without_an_entry_is_an_error() -> None:
    """And so is an entry without a page, unless it ends with a question mark."""
    with pytest.raises(NavigationError, match=r"tutorial\.md"):
        navigation({PurePosixPath("index.md"): "x"})


def test_what_the_generator_complains_of_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make docs` fails where a page has a link that leads nowhere."""
    pytest.importorskip("zensical")
    from deploy.documents import building
    from deploy.documents.assembling import Assembled

    def one_page(into: Path, _: object) -> Assembled:
        into.mkdir()
        (into / "index.md").write_text("# A page\n\n[gone](gone.md)\n")
        return Assembled()

    monkeypatch.setattr(building, "assemble", one_page)
    monkeypatch.setattr(building, "navigation", lambda _: ["index.md"])
    with pytest.raises(BuildError, match=r"(?s)gone\.md.*page does not exist"):
        build(tmp_path)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    """A build removes what builds have made, nothing else."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("x")
    with pytest.raises(BuildError, match="no build has made"):
        build(tmp_path)
    assert (tmp_path / "site" / "mine.txt").read_text() == "x"


def test_every_page_of_docs_says_what_it_is() -> None:
    """It has one title, and no text that nobody has written."""
    for path in (ROOT / "docs").rglob("*.md"):
        text = path.read_text()
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        assert len(re.findall(r"^# ", outside, re.MULTILINE)) == 1, path
        assert "\nTEXT\n" not in text, path
