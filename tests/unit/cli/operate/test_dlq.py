"""`aerobee dlq` for groups that have none."""

from support.servers.commands import Commands


def test_a_group_without_dead_letters_is_no_error(commands: Commands) -> None:
    """There is nothing to show, and nothing to send; a group that is not there is."""
    commands("group", "create", "cli-sound")
    assert commands.json("dlq", "show", "cli-sound") == []
    assert commands("dlq", "resend", "cli-sound", "--yes").stdout == "0 sent\n"
    for words in (("show", "cli-nobody"), ("resend", "cli-nobody", "--yes")):
        assert "no group 'cli-nobody'" in commands("dlq", *words, code=2).stderr
