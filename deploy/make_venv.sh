#!/usr/bin/env bash
# Make a virtual environment: make_venv.sh DIR [PYTHON]. One that works is kept.
# Without PYTHON the first interpreter of 3.11 or later that answers is taken.
set -euo pipefail

dir=$1
shift

fits() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if [ -x "$dir/bin/python" ] && fits "$dir/bin/python" && "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
rm -rf "$dir"
for python in "${@:-python3}" python3.13 python3.12 python3.11; do
    if fits "$python"; then
        echo "making $dir with $("$python" --version)"
        if "$python" -m venv "$dir"; then
            exit 0
        fi
        echo "error: $python cannot make a virtual environment; Debian has it in python3-venv" >&2
        exit 1
    fi
done
echo "error: Python 3.11 or later is needed; say where it is: make PYTHON=/path/to/python3" >&2
exit 1
