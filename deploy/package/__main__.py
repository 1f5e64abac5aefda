"""`python -m aerobee`: the command `aerobee` of this interpreter's environment."""

from aerobee.cli.entry import aerobee

if __name__ == "__main__":
    aerobee()
