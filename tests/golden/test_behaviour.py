"""Our servers answer every recorded question as the real RocketMQ did: code, remark, fields, body.

Where they mean to differ, `behaviour/deviations.json` says so: what we answer, and why.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.golden.behaviour import Prober, comparable_remark, load
from support.interop.aerobee_server import Aerobee

BEHAVIOUR: Final = Path(__file__).parent / "behaviour"
DEVIATIONS: Final[dict[str, dict[str, Any]]] = json.loads(
    (BEHAVIOUR / "deviations.json").read_text()
)
FAMILIES: Final = {
    file.stem: load(file)
    for file in sorted(BEHAVIOUR.glob("*.json"))
    if file.name != "deviations.json"
}
QUESTIONS: Final = [
    pytest.param((family, number), id=f"{family}-{number}-{probe['name']}")
    for family, probes in FAMILIES.items()
    for number, probe in enumerate(probes)
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Our answers by family, each family asked of a fresh server when its first test comes."""
    yield _Answers(tmp_path_factory)


class _Answers(dict[str, list[dict[str, Any]]]):
    def __init__(self, paths: pytest.TempPathFactory) -> None:
        super().__init__()
        self._paths = paths

    def __missing__(self, family: str) -> list[dict[str, Any]]:
        with Aerobee(self._paths.mktemp(family)) as server, Prober(server) as prober:
            self[family] = [prober.ask(probe) for probe in FAMILIES[family]]
        return self[family]


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer_is_rocketmqs(
    question: tuple[str, int], answers: dict[str, list[dict[str, Any]]]
) -> None:
    """One question, one answer, the same as recorded or as the list of deviations says."""
    family, number = question
    probe = FAMILIES[family][number]
    expected, got = probe["answer"], answers[family][number]
    deviation = DEVIATIONS.get(f"{family}: {probe['name']}")
    if deviation is not None:
        assert got.get("code") == deviation["code"], f"{deviation['why']}; got {got}"
        return
    assert got.get("code") == expected.get("code"), got
    remark = comparable_remark(expected)
    if remark is not None:
        assert got.get("remark") == remark
    assert got.get("ext") == expected.get("ext")
    assert comparable_body(got) == comparable_body(expected)


def comparable_body(answer: dict[str, Any]) -> Any:
    """Return an answer's body, of records only that there are some.

    The length of a record depends on the keys that the broker makes, which have 32 or 56 characters
    as the machine's address has four bytes or sixteen.
    """
    body = answer.get("body")
    return "records" if isinstance(body, dict) and set(body) == {"bytes"} else body


def test_deviations_name_questions_that_exist() -> None:
    """A deviation whose question is gone must go as well."""
    names = {
        f"{family}: {probe['name']}" for family, probes in FAMILIES.items() for probe in probes
    }
    assert set(DEVIATIONS) <= names
