#!/usr/bin/env bash
# The pipeline; where it has run before, it goes on at its next iteration. Its code is in the image.
set -euo pipefail
exec /opt/scaffold/bin/python /opt/openhands/pipeline.py
