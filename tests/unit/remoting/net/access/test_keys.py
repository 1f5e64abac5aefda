"""What can be set of access control, and what a secret's setting shows."""

import json

import pytest
from pydantic import ValidationError

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.config.secret_keys import HIDDEN, without_secrets
from aerobee.remoting.config.settings import SettingsError

PACKAGE = "org.apache.rocketmq.auth.authentication"
FILE = """\
authenticationEnabled = true
authorizationEnabled = true
authenticationProvider = %s.provider.DefaultAuthenticationProvider
authenticationMetadataProvider = %s.provider.LocalAuthenticationMetadataProvider
authenticationStrategy = %s.strategy.StatefulAuthenticationStrategy
authenticationWhitelist = 105, 34, apache.rocketmq.v2.QueryRouteRequest
initAuthenticationUser = {"username":"root","password":"toor-1"}
innerClientAuthenticationCredentials = {"accessKey":"inner","secretKey":"toor-2"}
""" % ((PACKAGE,) * 3)


def test_rocketmqs_file_is_taken_as_it_is() -> None:
    """Its class names stand for what is done here; both users are super users."""
    options = dict(line.split(" = ", 1) for line in FILE.splitlines())
    settings, warnings = BrokerSettings.load(options=options, environ={})
    assert not [each for each in warnings if "in the list of processes" not in each]
    assert settings.controls_access
    assert not settings.each_is_asked
    rules = settings.access_rules
    assert (rules.authenticates, rules.authorizes) == (True, True)
    assert sorted(rules.open_codes) == [34, 105]
    assert not rules.free_codes
    assert [(user.username, user.user_type) for user in settings.first_users] == [
        ("root", "Super"), ("inner", "Super"),
    ]  # fmt: skip
    assert settings.credentials is not None
    assert "toor" not in repr(settings.credentials)
    shown = without_secrets(dict(settings.items()))
    assert shown["initAuthenticationUser"] == HIDDEN
    assert shown["innerClientAuthenticationCredentials"] == HIDDEN
    assert "toor" not in str(settings.chosen())


def test_nothing_is_asked_by_default() -> None:
    """And no user is made."""
    settings = BrokerSettings()
    assert not settings.controls_access
    assert settings.first_users == ()
    assert settings.credentials is None
    text = f"{PACKAGE}.strategy.StatelessAuthenticationStrategy"
    assert BrokerSettings(authentication_strategy=text).each_is_asked


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("authenticationProvider", "com.example.Mine", "no other class is loaded"),
        ("authenticationWhitelist", "105,SEND", "'SEND' is none"),
        ("initAuthenticationUser", "root:toor", 'JSON like {"username"'),
        ("initAuthenticationUser", '{"username":"root"}', "a user with a name and a password"),
        ("innerClientAuthenticationCredentials", '{"accessKey":"x"}', 'JSON like {"accessKey"'),
        (
            "innerClientAuthenticationCredentials",
            '{"accessKey":"x","secretKey":" "}',
            "an accessKey and a secretKey",
        ),
    ],
)
def test_what_cannot_be_is_told(key: str, value: str, told: str) -> None:
    """A secret that is wrong is not shown either."""
    with pytest.raises(SettingsError) as error:
        BrokerSettings.load(options={key: value}, environ={})
    assert told in str(error.value)
    assert "toor" not in str(error.value)


def test_texts_of_settings_and_users_have_no_secret() -> None:
    """As they stand in a log, an error or a debugger."""
    user = json.dumps({"username": "root", "password": "s3cr3t"})
    inner = json.dumps({"accessKey": "a", "secretKey": "s3cr3t"})
    settings = BrokerSettings(
        init_authentication_user=user, inner_client_authentication_credentials=inner
    )
    shown = f"{settings!r} {settings} {settings.first_users!r} {settings.credentials!r}"
    assert "init_authentication_user='******'" in shown
    assert "broker_name=" in shown
    assert "s3cr3t" not in shown
    with pytest.raises(ValidationError) as error:
        BrokerSettings(init_authentication_user='{"password":"s3cr3t"}')
    assert "s3cr3t" not in str(error.value)
