"""`manage.py check` names what is wrong with the settings; their use raises."""

from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from aerobee.integrations.django import producer


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "AEROBEE must be a dict"),
        ({"NAMESRVS": "x:1"}, "AEROBEE['NAMESRVS'] is no setting"),
        ({"NAMESRV": 7}, "AEROBEE['NAMESRV'] must be a text"),
        ({"NAMESRV": "nowhere"}, "AEROBEE: "),
        ({"NAMESRV": "x:1", "PRODUCER": 3}, "AEROBEE['PRODUCER'] must be a dict"),
        ({"NAMESRV": "x:1", "PRODUCER": {"retries": 3}}, "unexpected keyword argument 'retries'"),
        ({"NAMESRV": "x:1", "PRODUCER": {"compression": "7z"}}, "compression='7z'"),
        ({"NAMESRV": "x:1", "CLIENT": {"access_channel": "MARS"}}, "access_channel='MARS'"),
        ({"NAMESRV": "x:1", "PRODUCER_GROUP": "a b"}, "the group 'a b'"),
    ],
)
def test_a_wrong_setting_is_an_error(given: Any, said: str) -> None:
    """And nothing is made of it."""
    with override_settings(AEROBEE=given):
        (error,) = run_checks()
        assert error.id == "aerobee.E001" and said in error.msg
        with pytest.raises(ImproperlyConfigured) as raised:
            producer()
        assert str(raised.value) == error.msg


def test_no_nameserver_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the environment can name as well."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    (warning,) = run_checks()
    assert warning.id == "aerobee.W001" and warning.hint is not None
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:9876")
    assert run_checks() == []
    with override_settings(AEROBEE={"NAMESRV": "127.0.0.1:9876", "CONSUMER": {"concurrency": 3}}):
        monkeypatch.delenv("NAMESRV_ADDR")
        assert run_checks() == []
