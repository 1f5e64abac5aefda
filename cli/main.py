"""The console scripts: `aerobee`, and `broker` and `namesrv` as RocketMQ's users expect them."""

from typing import Final

import click

from aerobee.cli.program import Lazy, Program, examples, option_name

SETTINGS: Final = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": option_name,  # --listenPort is --listen-port
    "max_content_width": 100,
}

START: Final = Lazy("aerobee.cli.broker_start", "start", "serve until SIGTERM or Ctrl-C", "broker")
_BROKER: Final = "aerobee.cli.operate.broker"

broker = Program(
    {"start": START},
    name="broker",
    context_settings=SETTINGS,
    help="A message broker that RocketMQ clients use.",
)

brokers = Program(
    {
        "start": START,
        "list": Lazy(_BROKER, "list_brokers", "versions, rates, disks"),
        "describe": Lazy(_BROKER, "describe", "everything that a broker says of itself"),
        "settings": Lazy(_BROKER, "get_settings", "show the settings of a broker"),
        "set": Lazy(_BROKER, "set_settings", "change settings of a broker that runs"),
        "wipe-writes": Lazy(_BROKER, "wipe_writes", "let nameservers say that it takes nothing"),
        "allow-writes": Lazy(_BROKER, "allow_writes", "undo wipe-writes"),
        "add": Lazy(
            "aerobee.cli.operate.spreading", "add", "give a new broker the topics of another"
        ),
        "drain": Lazy(_BROKER, "drain", "take no more, and wait until all is consumed"),
    },
    name="broker",
    context_settings=SETTINGS,
    help="Brokers: start one, look at them, add one, take one out of service.",
    epilog=examples(
        "aerobee broker start -n 127.0.0.1:9876",
        "aerobee broker list --watch 2",
        "aerobee broker set broker-a fileReservedTime=24",
        "aerobee broker drain broker-a --drain-timeout 600",
    ),
)

namesrv = Program(
    {
        "start": Lazy(
            "aerobee.cli.namesrv_start", "start", "serve until SIGTERM or Ctrl-C", "broker"
        )
    },
    name="namesrv",
    context_settings=SETTINGS,
    help="A nameserver: tells clients which broker has a topic.",
)

main = Program(
    {
        "demo": Lazy(
            "aerobee.cli.demo.command",
            "demo",
            "100,000 messages live, then counted by Spark",
            "broker",
        ),
        "namesrv": Lazy("aerobee.cli.main", "namesrv", "the nameserver: namesrv start", "broker"),
        "broker": Lazy("aerobee.cli.main", "brokers", "brokers: start, list, set up, drain"),
        "status": Lazy("aerobee.cli.topics", "status", "the brokers and topics of a cluster"),
        "create-topic": Lazy("aerobee.cli.topics", "create_topic", "make a topic on every broker"),
        "topic": Lazy("aerobee.cli.operate.topic", "topic", "topics: list, describe, create ..."),
        "group": Lazy(
            "aerobee.cli.operate.group", "group", "consumer groups, their lag and members"
        ),
        "offset": Lazy("aerobee.cli.operate.offset", "offset", "let a group go on elsewhere"),
        "message": Lazy(
            "aerobee.cli.operate.message", "message", "browse, find, tail, produce, copy messages"
        ),
        "dlq": Lazy("aerobee.cli.operate.dlq", "dlq", "dead letters: list, show, resend"),
        "user": Lazy("aerobee.cli.operate.user", "user", "who may ask brokers that ask"),
        "acl": Lazy("aerobee.cli.operate.acl", "acl", "what users may do, and from where"),
        "cluster": Lazy("aerobee.cli.operate.broker", "cluster", "what has registered"),
        "doctor": Lazy(
            "aerobee.cli.operate.doctor", "doctor", "why clients get no route, or nothing"
        ),
        "health": Lazy("aerobee.cli.health", "health", "whether the server of this machine lives"),
        "config": Lazy("aerobee.cli.operate.config", "config", "topics and groups as a file"),
        "console": Lazy(
            "aerobee.cli.console_start", "start", "the web console over a cluster", "console"
        ),
        "store": Lazy(
            "aerobee.cli.store", "store", "snapshots of a broker's files, and back", "broker"
        ),
        "export": Lazy(
            "aerobee.cli.export", "export", "write a store's messages to Parquet", "export"
        ),
        "completion": Lazy("aerobee.cli.completion", "completion", "print shell completion"),
    },
    name="aerobee",
    context_settings=SETTINGS,
    help="A RocketMQ-compatible broker, nameserver and client, and a Spark source over the log.",
    epilog=examples(
        "aerobee demo",
        "aerobee namesrv start",
        "aerobee broker start -n 127.0.0.1:9876",
        "aerobee export --store ~/store --to ./parquet",
    ),
)
for program in (main, broker, namesrv):
    program.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=lambda ctx, param, value: _version(ctx) if value else None,
            help="Print the version, and whether it is compiled.",
        )
    )


def _version(ctx: click.Context) -> None:
    """Print the installed version and how it was built, and end."""
    from aerobee.remoting.config.built import build

    click.echo(f"{ctx.info_name} {build()}")
    ctx.exit()
