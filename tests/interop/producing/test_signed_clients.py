"""Unmodified clients and RocketMQ's mqadmin with a broker that asks who they are."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.peers import SIGNED, Peer, mqadmin

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

SECRET: Final = "12345678"
SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": "rocketmq", "password": SECRET}),
}
COMMANDS: Final = (
    f"createUser -b B -u ann -p {SECRET}",
    f"createUser -b B -u bob -p {SECRET} -t Normal",
    f"createUser -b B -u ann -p {SECRET}",
    "createAcl -b B -s User:ann -r Topic:t*,Group:g* -a Pub,Sub,Create -d Allow",
    "createAcl -b B -s User:bob -r Topic:t -a Pub -d Deny -i 127.0.0.0/8",
    "updateAcl -b B -s User:bob -r Topic:other -a Pub -d Allow",
    "listUser -b B",
    "getUser -b B -u ann",
    "updateUser -b B -u bob -s disable",
    "updateUser -b B -u bob -s enable",
    "getAcl -b B -s User:bob",
    "listAcl -b B",
    "deleteAcl -b B -s User:bob -r Topic:other",
    "copyUser -f B -t B -u ann",
    "copyAcl -f B -t B -s User:ann",
    "listAcl -b B -s bob",
    f"createUser -b B -u gone -p {SECRET}",
    "deleteUser -b B -u gone",
    "getUser -b B -u gone",
    "updateTopic -b B -t t -r 4 -w 4",
    "brokerStatus -b B",
)


def run(peer: Peer, words: list[str], lines: str, log_file: Path) -> str:
    """Run a program to its end and return what it printed."""
    child = peer.start(words, log_file)
    try:
        output, _ = child.communicate(lines, timeout=200)
    except subprocess.TimeoutExpired:
        child.kill()
        output, _ = child.communicate()
    assert child.returncode == 0, output + log_file.read_text()
    return output


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aerobee]:
    """A nameserver that asks nobody, and a broker that asks everybody."""
    with Aerobee(tmp_path_factory.mktemp("asking"), settings=SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def told(server: Aerobee, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mqadmin printed of each command, run one after the other."""
    home = tmp_path_factory.mktemp("home")
    home.joinpath("conf").mkdir()
    home.joinpath("conf", "tools.yml").write_text(f"accessKey: rocketmq\nsecretKey: {SECRET}\n")
    lines = "".join(re.sub(r"\bB\b", server.broker, command) + "\n" for command in COMMANDS)
    output = run(mqadmin(home), [], lines, home / "log")
    printed = re.split(r"^--- .*\n", output, flags=re.MULTILINE)[:-1]
    assert len(printed) == len(COMMANDS), output
    return printed


@pytest.mark.parametrize(
    ("number", "pattern"),
    [
        (0, "create user to .* success"),
        (1, "create user to .* success"),
        (2, "The user is existed"),
        (3, "create acl to .* success"),
        (4, "create acl to .* success"),
        (5, "update acl to .* success"),
        (6, rf"ann +{SECRET} +Normal +enable"),
        (6, rf"rocketmq +{SECRET} +Super +enable"),
        (7, rf"ann +{SECRET} +Normal +enable"),
        (8, "update user to .* success"),
        (10, r"User:bob +Custom +Topic:t +\[Pub\] +\[127\.0\.0\.0/8\] +Deny"),
        (10, r"User:bob +Custom +Topic:other +\[Pub\] +null +Allow"),
        (11, r"User:ann +Custom +Group:g\* +\[Pub, Sub, Create\] +null +Allow"),
        (12, "delete acl to .* success"),
        (13, "copy user of ann from .* success"),
        (14, "copy acl of User:ann from .* success"),
        (15, r"User:bob +Custom +Topic:t "),
        (17, "delete user to .* success"),
        (18, r"^(?!.*gone)"),
        (19, "create topic to .* success"),
        (20, "brokerVersionDesc"),
    ],
)
def test_mqadmin_prints(told: list[str], number: int, pattern: str) -> None:
    """Each of its twelve commands of users and policies, and two more, says what it says there."""
    assert re.search(pattern, told[number]), (COMMANDS[number], told[number])


def test_a_user_with_rights_does_all(server: Aerobee, told: list[str], tmp_path: Path) -> None:
    """Plain and transactional sends, consumption with a retry, lite pulls: as without questions."""
    words = [server.namesrv, "ann", SECRET, "t", "g", "20"]
    output = run(SIGNED, words, "", tmp_path / "log")
    steps = [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]
    assert {step["step"]: step["result"] for step in steps} == {
        "sent": "19",
        "committed": "SEND_OK",
        "consumed": "true 20 again 1",
        "pulled": "20",
    }


@pytest.mark.parametrize(
    ("user", "secret", "refusal"),
    [
        (
            "bob",
            SECRET,
            "User:bob has no permission to access Topic:t from 127.0.0.1, the decision",
        ),
        ("ann", "guessed", "check signature failed."),
        ("nobody", SECRET, "check signature failed."),
    ],
)
def test_a_user_without_hears_why(
    server: Aerobee, told: list[str], tmp_path: Path, user: str, secret: str, refusal: str
) -> None:
    """16 and RocketMQ's words, which its client shows."""
    output = run(SIGNED, [server.namesrv, user, secret, "t", "g", "3"], "", tmp_path / "log")
    (step,) = [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]
    assert step["step"] == "refused"
    assert step["result"].startswith("16 ")
    assert refusal in step["result"]
