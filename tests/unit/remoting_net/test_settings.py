"""Every limit of the network layer can be set."""

from dataclasses import asdict

import pytest

from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.settings import NetSettings
from aerobee.remoting.net.tls import ClientAuth, TlsMode, TlsSettings
from aerobee.remoting.settings import SettingsError


def test_the_defaults_are_those_of_the_limits() -> None:
    """One place says what a limit is when nobody sets it."""
    assert NetSettings().net_limits == NetLimits()
    assert NetSettings().tls == TlsSettings()


@pytest.mark.parametrize("name", list(asdict(NetLimits())))
def test_each_limit_has_a_setting(name: str) -> None:
    """Seconds are set in milliseconds, but for the idle time-out; the rest under its own name."""
    key = name if name in NetSettings.model_fields else name.removesuffix("_s") + "_ms"
    default = getattr(NetSettings(), key)
    settings, warnings = NetSettings.load(options={key: str(default + 1)}, environ={})
    assert warnings == []
    assert getattr(settings.net_limits, name) > getattr(NetLimits(), name)


def test_rocketmqs_keys_are_known() -> None:
    """Those of NettyServerConfig and TlsSystemConfig."""
    options = {
        "frameMaxLength": "1048576",
        "serverChannelMaxIdleTimeSeconds": "60",
        "connectTimeoutMillis": "1500",
        "tls.server.mode": "enforcing",
        "tls.server.certPath": "/c.pem",
        "tls.server.need.client.auth": "require",
    }
    settings, warnings = NetSettings.load(options=options, environ={})
    assert warnings == []
    limits = settings.net_limits
    assert (limits.frame_bytes_max, limits.idle_timeout_s, limits.connect_timeout_s) == (
        1_048_576,
        60,
        1.5,
    )
    assert settings.tls.mode is TlsMode.ENFORCING
    assert settings.tls.cert_path == "/c.pem"
    assert settings.tls.client_auth is ClientAuth.REQUIRE


def test_resuming_must_come_after_pausing() -> None:
    """Two limits that do not go together are both named."""
    with pytest.raises(SettingsError, match=r"writeResumeBytes=2000000.*writePauseBytes=1000000"):
        NetSettings.load(
            options={"writePauseBytes": "1000000", "writeResumeBytes": "2000000"}, environ={}
        )
