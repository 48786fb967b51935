#!/bin/sh
# Finds Python 3.10 or later and runs bootstrap.py: `sh scripts/bootstrap.sh demo`.
# PYTHON=/path/to/python3 in the environment is tried first.
set -eu

here=$(dirname -- "$0")
for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
    # Runs each candidate: a version manager's shim may have no interpreter.
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
        exec "$name" "$here/bootstrap.py" "$@"
    fi
done
echo "setup: no Python 3.10 or later was found; install one (Debian, Ubuntu: sudo apt-get install python3)," \
    "or name one: PYTHON=/path/to/python3 make ..." >&2
exit 1
