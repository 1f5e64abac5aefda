#!/usr/bin/env bash
# Name what an editable build was, or would be, made of: built_of.sh prints one word.
# It changes with the text of the compiled parts' sources and of the build's settings, and when a
# compiled module goes; not with times, which a checkout and a copied tree change as they like.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

{
    cat pyproject.toml deploy/server/pyproject.toml deploy/build_hook.py
    for file in {broker,client,spark,storage}/compiled/*.p[yx]* remoting/message/*.pxi; do
        [ -f "$file" ] && echo "$file" && cat "$file"
    done
    ls {broker,client,spark,storage}/compiled/*.{so,pyd} 2>/dev/null || true
    [ ! -x .venv/bin/python ] || readlink -f .venv/bin/python
} | cksum | tr ' ' '-'
