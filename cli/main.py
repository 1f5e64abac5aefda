"""The console scripts: `aerobee`, and `broker` and `namesrv` as RocketMQ's users expect them."""

from typing import Final

import click

from aerobee.cli.program import Lazy, Program, examples, option_name

SETTINGS: Final = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": option_name,  # --listenPort is --listen-port
    "max_content_width": 100,
}

broker = Program(
    {"start": Lazy("aerobee.cli.broker_start", "start", "serve until SIGTERM or Ctrl-C", "broker")},
    name="broker",
    context_settings=SETTINGS,
    help="A message broker that RocketMQ clients use.",
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
        "broker": Lazy("aerobee.cli.main", "broker", "the broker: broker start", "broker"),
        "status": Lazy("aerobee.cli.topics", "status", "the brokers and topics of a cluster"),
        "create-topic": Lazy("aerobee.cli.topics", "create_topic", "make a topic on every broker"),
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
