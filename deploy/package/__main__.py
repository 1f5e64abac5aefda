"""`python -m aerobee`: the command `aerobee` of this interpreter's environment."""

from aerobee.cli.main import main

if __name__ == "__main__":
    main(prog_name="aerobee")
