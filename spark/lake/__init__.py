"""The folder that an export fills: files, names, formats, manifests, one owner."""
