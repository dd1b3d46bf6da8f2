# As the Dockerfile beside it, for hosts with NVIDIA GPUs: vLLM with a torch of its own. Built where HARNESS_DEVICE is gpu.
ARG BASE=harness-base
FROM ${BASE} AS build

COPY ca/ /usr/local/share/ca-certificates/
COPY wheelhouse/ /wheelhouse/
COPY requirements.txt /tmp/requirements.txt
RUN install-packages /opt/venv /tmp/requirements.txt
LABEL harness.stage=build

FROM ${BASE}
# Triton compiles the launcher of each kernel in C, at its first use.
RUN set -eu; \
    header="$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; \
    if ! command -v cc > /dev/null || [ ! -e "$header" ]; then \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev \
            $([ -e "$header" ] || echo python3-dev); \
        rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin; \
    fi
COPY --from=build /opt/venv /opt/venv
COPY harness/ /opt/harness/harness/
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/harness \
    HF_HUB_OFFLINE=1 \
    TRANSFORMERS_OFFLINE=1 \
    TOKENIZERS_PARALLELISM=false
RUN python -m compileall -q /opt/harness
USER 65532:65532
CMD ["python", "-m", "harness.inference"]
