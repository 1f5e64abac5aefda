"""The keys of settings files: each that the classes of the real RocketMQ 5.5.0 take is known."""

import re
import subprocess

import pytest
from support.interop import toolchain
from support.interop.rocketmq_server import VERSION

from aerobee.remoting.config.secret_keys import plain_key
from aerobee.remoting.config.settings_keys import ROCKETMQ_KEYS

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

CLASSES = (
    "common.BrokerConfig",
    "common.BrokerIdentity",
    "common.namesrv.NamesrvConfig",
    "remoting.netty.NettyServerConfig",
    "remoting.netty.NettyClientConfig",
    "store.config.MessageStoreConfig",
    "auth.config.AuthConfig",
)


@pytest.mark.parametrize("name", CLASSES)
def test_each_key_is_on_the_list(name: str) -> None:
    """A key that nobody has decided on would be passed over, whatever it promises."""
    command = [toolchain.tool("javap"), "-public", "-cp", toolchain.classpath(f"server-{VERSION}")]
    told = subprocess.run(
        [*command, f"org.apache.rocketmq.{name}"], capture_output=True, text=True, check=True
    )
    keys = {found[0].lower() + found[1:] for found in re.findall(r" set(\w+)\(", told.stdout)}
    assert keys, told.stdout
    known = set(map(plain_key, ROCKETMQ_KEYS))
    assert sorted(key for key in keys if plain_key(key) not in known) == []
