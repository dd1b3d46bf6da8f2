#!/usr/bin/env bash
# Sets up a virtual environment with vLLM's CPU build: vllm_cpu_venv.sh PYTHON FOLDER REQUIREMENTS (3 GB, some minutes).
set -euo pipefail
python=$1 folder=$2 requirements=$3

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "error: the pins of $requirements are for Python 3.11: make test-vllm-cpu PYTHON=/path/to/python3.11" >&2
    exit 3
}
rm -rf "$folder"
"$python" -m venv "$folder"
# torch's CPU build is found in a configured index, or in PyTorch's own.
for index in "" "--extra-index-url=https://download.pytorch.org/whl/cpu"; do
    # shellcheck disable=SC2086
    if "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps $index -r "$requirements"; then
        touch "$folder/.installed"
        exit 0
    fi
done
echo "error: vLLM's CPU build could not be installed; pip says above why" >&2
exit 3
