"""Topics through a browser: found, made, changed, deleted, and never code in a page."""

from support.servers.live_console import live_console

from aerobee.admin import AdminClient
from aerobee.testing import EmbeddedCluster


async def test_a_topic_is_made_changed_and_deleted() -> None:
    """Everywhere at first, then on one broker; deletion wants the name typed."""
    async with (
        EmbeddedCluster(brokers=2) as cluster,
        live_console(cluster.namesrv_addr) as browser,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        await browser.get("/topics-new")
        fields = {"topic": "orders", "read_queues": "3", "write_queues": "3", "perm": "rw"}
        made = await browser.post("/topics-new", {**fields, "message_type": "FIFO"})
        assert made.status == 200 and made.path == "/topics/orders", made.text
        assert "Topic orders made on broker-a, broker-b" in made.text
        twice = await browser.post("/topics-new", fields)
        assert twice.status == 422 and "already" in twice.text

        await browser.post("/topics/orders", {"read_queues": "5", "broker": "broker-b"})
        configs = (await admin.topic.describe("orders")).configs
        assert {name: config.read_queue_nums for name, config in configs.items()} == {
            "broker-a": 3,
            "broker-b": 5,
        }
        assert configs["broker-a"].attributes == {"message.type": "FIFO"}
        for wrong in ({"read_queues": "0"}, {"perm": "x"}, {"write_queues": "²"}):
            assert (await browser.post("/topics/orders", wrong)).status == 422

        assert (await browser.post("/topics/orders/delete", {"confirm": "order"})).status == 422
        assert await admin.route("orders") is not None
        gone = await browser.post("/topics/orders/delete", {"confirm": "orders"})
        assert gone.path == "/topics" and "orders deleted" in gone.text
        assert await admin.route("orders") is None


async def test_many_topics_are_shown_a_page_at_a_time() -> None:
    """A page asks for the figures of its own rows alone."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        for number in range(60):
            await cluster.create_topic(f"topic-{number:02}", queues=1)
        first = await browser.get("/topics")
        assert "60 topics" in first.text and "1–50 of 60" in first.text
        assert "topic-49" in first.text and "topic-50" not in first.text
        last = await browser.get("/topics?page=2")
        assert "topic-50" in last.text and "topic-49" not in last.text
        beyond = await browser.get("/topics?page=99999999999")
        assert beyond.status == 200 and "topic-50" in beyond.text
        found = await browser.get("/topics?q=TOPIC-5")
        assert "10 topics" in found.text and "topic-50" in found.text
        assert "TBW102" not in first.text
        assert "TBW102" in (await browser.get("/topics?own=1&q=tbw")).text


async def test_what_is_asked_for_is_never_code() -> None:
    """Names come from whoever sends: a page shows them, and runs none."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        for path in (
            "/topics?q=%3Cscript%3E",
            "/topics/%3Cscript%3E",
            "/groups?q=%22%3E%3Cscript%3E",
        ):
            shown = await browser.get(path)
            assert "<script>" not in shown.text and "&lt;script&gt;" in shown.text
