"""`mqbroker` and `mqnamesrv`: RocketMQ's options over `broker start` and `namesrv start`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aerobee.cli.main import broker, namesrv
from aerobee.remoting.config.secret_keys import without_secrets
from aerobee.remoting.config.settings import ServerSettings, SettingsError

OF_A_JVM: Final = (
    "JAVA_OPT", "JAVA_OPT_EXT", "JAVA_OPTS", "HEAP_OPTS", "MAX_POSSIBLE_HEAP",
)  # fmt: skip
IMPORTANT: Final = frozenset(
    {
        "namesrvAddr", "brokerIP1", "brokerIP2", "brokerName", "brokerClusterName", "brokerId",
        "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "rejectTransactionMessage",
        "listenPort", "bindAddress", "storePathRootDir", "storePathCommitLog", "flushDiskType",
        "fileReservedTime", "deleteWhen", "brokerRole", "haListenPort", "messageDelayLevel",
        "kvConfigPath",
    }
)  # fmt: skip
"""What `-m` prints: RocketMQ's fields that are marked important, of those that there are."""


def mqbroker(words: Sequence[str]) -> int:
    """Run a broker, or print its settings; return the exit code."""
    parser = _parser("mqbroker", "broker.conf")
    parser.add_argument("--enable-proxy", action="store_true", help="left out: there is no proxy")
    given, more = parser.parse_known_args(words)
    _warn(*["there is no proxy here: --enable-proxy is left out"] * given.enable_proxy)
    named = {"namesrvAddr": given.namesrvAddr} if given.namesrvAddr else {}
    if given.printImportantConfig:
        from aerobee.broker.settings.keys import BrokerSettings

        return _print_important(BrokerSettings, given.configFile, named)
    named_words = ["-n", given.namesrvAddr] if given.namesrvAddr else []
    broker.main(["start", *_words(given), *named_words, *more], prog_name="mqbroker")
    return 0


def mqnamesrv(words: Sequence[str]) -> int:
    """Run a nameserver, or print its settings; return the exit code."""
    given, more = _parser("mqnamesrv", "namesrv.conf").parse_known_args(words)
    _warn()
    if given.printImportantConfig:
        from aerobee.namesrv.settings import NamesrvSettings

        return _print_important(NamesrvSettings, given.configFile, {})
    namesrv.main(["start", *_words(given), *more], prog_name="mqnamesrv")  # -n is nothing to it
    return 0


def _parser(name: str, file: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
    add = parser.add_argument
    add("-c", "--configFile", type=Path, metavar="FILE", help=f"settings, such as {file}")
    add("-n", "--namesrvAddr", metavar="HOST:PORT;...", help="nameservers")
    add("-p", "--printConfigItem", action="store_true", help="print all settings, and end")
    add("-m", "--printImportantConfig", action="store_true", help="print the main ones, and end")
    return parser


def _words(given: argparse.Namespace) -> list[str]:
    words = ["-c", str(given.configFile)] if given.configFile is not None else []
    return [*words, "-p"] if given.printConfigItem else words


def _warn(*more: str) -> None:
    """Say what is left out of what was asked for."""
    ignored = [name for name in OF_A_JVM if os.environ.get(name)]
    if ignored:
        sys.stderr.write(f"warning: there is no JVM here: {', '.join(ignored)} ignored\n")
    for text in more:
        sys.stderr.write(f"warning: {text}\n")


def _print_important(
    settings: type[ServerSettings], file: Path | None, options: dict[str, str]
) -> int:
    try:
        loaded, warnings = settings.load(file, options)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    for key, value in without_secrets(dict(loaded.items())).items():
        if key in IMPORTANT:
            print(f"{key}={value}")
    return 0
