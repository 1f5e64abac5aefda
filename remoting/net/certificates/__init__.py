"""The certificates that servers and clients show: which ones are in use, renewed or made here."""
