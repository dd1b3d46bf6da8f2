#!/usr/bin/env bash
# Runs mini-swe-agent on the prompt, or takes its last session up again (CONTINUATION).
set -euo pipefail
exec /opt/scaffold/bin/python "$(dirname "$0")/run.py"
