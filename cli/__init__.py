"""The `aerobee` command line."""
