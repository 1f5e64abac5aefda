"""The pages of the console, a module each; `listed.py` has them in order."""
