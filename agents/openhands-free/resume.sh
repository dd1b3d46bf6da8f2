#!/usr/bin/env bash
# Takes the conversation up again.
set -euo pipefail
exec /opt/scaffold/bin/python /opt/openhands/free.py --continue
