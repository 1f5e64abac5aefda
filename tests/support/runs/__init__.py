"""How tests are run: which a change needs, in which order, which once more."""
