# A scorer with one benchmark's own packages (its requirements.txt) on top of ours.
ARG BASE=harness-scorer
FROM ${BASE} AS build

USER 0:0
COPY ca/ /usr/local/share/ca-certificates/
COPY wheelhouse/ /wheelhouse/
COPY requirements.txt /tmp/requirements.txt
RUN update-ca-certificates > /dev/null 2>&1 \
    && export PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_FIND_LINKS=/wheelhouse \
        PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off PIP_DEFAULT_TIMEOUT=60 \
    && /opt/venv/bin/pip install -r /tmp/requirements.txt
LABEL harness.stage=build

FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
