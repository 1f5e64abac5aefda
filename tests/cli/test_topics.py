"""`aerobee status` and `aerobee create-topic` against a running cluster."""

import socket

from click.testing import CliRunner

from aerobee.broker.rules.system_topics import system_topics
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli import main
from aerobee.testing import ClusterThread


def test_a_topic_is_made_and_shown(rocketmq: ClusterThread) -> None:
    """What one command makes the other shows, with its queues by broker."""
    runner = CliRunner()
    made = runner.invoke(
        main.main, ["create-topic", "cli-made", "-q", "3", "-n", rocketmq.namesrv_addr]
    )
    assert (made.exit_code, made.stdout) == (0, "cli-made: 3 queues on broker-a\n"), made.output
    shown = runner.invoke(main.main, ["status"], env={"NAMESRV_ADDR": rocketmq.namesrv_addr})
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["broker", "DefaultCluster", "broker-a", "0", rocketmq.broker_addrs[0]] in lines
    assert ["topic", "cli-made", "queues:", "broker-a", "3"] in lines
    all_topics = runner.invoke(main.main, ["status", "--all", "-n", rocketmq.namesrv_addr])
    hidden = {*all_topics.stdout.splitlines()} - {*shown.stdout.splitlines()}
    names = {line.split()[1] for line in hidden}
    assert "TBW102" in names
    settings = BrokerSettings()  # as the cluster's broker has them
    assert names >= {topic.topic_name for topic in system_topics(settings)}


def test_a_refused_name_is_one_clear_error(rocketmq: ClusterThread) -> None:
    """The broker's reason reaches the shell."""
    result = CliRunner().invoke(
        main.main, ["create-topic", "no blanks", "-n", rocketmq.namesrv_addr]
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "no blanks" in result.stderr


def test_no_nameserver_is_one_clear_error() -> None:
    """The address that does not answer is named."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    result = CliRunner().invoke(main.main, ["status", "-n", address])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {address}: ")
