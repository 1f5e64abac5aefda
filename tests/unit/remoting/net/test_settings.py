"""Every limit of the network layer can be set."""

import pytest
from msgspec.structs import asdict
from pydantic import ValidationError

from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.settings import CallingSettings, NetSettings
from aerobee.remoting.net.tls import ClientAuth, TlsClientSettings, TlsMode, TlsSettings


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


def test_calls_of_ours_are_encrypted_as_rocketmq_does_it() -> None:
    """tls.enable decides; where it is not set, enforcing TLS means using it."""
    assert CallingSettings().calls_tls is None
    options = {"tls.server.mode": "enforcing"}
    settings, _ = CallingSettings.load(options=options, environ={})
    assert settings.calls_tls == TlsClientSettings()
    settings, _ = CallingSettings.load(options=options | {"tls.enable": "false"}, environ={})
    assert settings.calls_tls is None
    options = {
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": "/ca.pem",
        "tls.client.certPath": "/c.pem",
        "tls.client.keyPath": "/k.pem",
        "tls.client.keyPassword": "geheim",
    }
    settings, (warning,) = CallingSettings.load(options=options, environ={})
    assert "use tls.client.keyPasswordFile" in warning
    assert settings.calls_tls == TlsClientSettings(
        cert_path="/c.pem",
        key_path="/k.pem",
        key_password="geheim",
        verify_server=True,
        trust_cert_path="/ca.pem",
    )


@pytest.mark.parametrize("key", ["authServer", "trustCertPath", "certPath", "keyPath"])
def test_what_would_verify_nothing_is_refused(key: str) -> None:
    """Whoever says how calls are to be encrypted does not get plain ones."""
    with pytest.raises(
        SettingsError, match=rf"tls\.client\.{key} means nothing .*tls\.enable=true"
    ):
        CallingSettings.load(options={f"tls.client.{key}": "true"}, environ={})


def test_resuming_must_come_after_pausing() -> None:
    """Two limits that do not go together are both named."""
    with pytest.raises(SettingsError, match=r"writeResumeBytes=2000000.*writePauseBytes=1000000"):
        NetSettings.load(
            options={"writePauseBytes": "1000000", "writeResumeBytes": "2000000"}, environ={}
        )


def test_a_pause_of_writing_is_one_that_every_loop_can_keep() -> None:
    """uvloop takes 31 bits, and would refuse each connection."""
    NetSettings(write_pause_bytes=1 << 30)
    with pytest.raises(ValidationError):
        NetSettings(write_pause_bytes=1 << 31)
