"""The site of documents: `docs/`, the READMEs, and reference pages that are read from the code."""
