#!/usr/bin/env bash
# One free conversation. The code is in the image, which is that of agents/openhands.
set -euo pipefail
exec /opt/scaffold/bin/python /opt/openhands/free.py
