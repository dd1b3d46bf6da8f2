# A scorer with one benchmark's own packages (its requirements.txt) on top of ours.
ARG BASE=harness-scorer
FROM ${BASE} AS build

USER 0:0
COPY ca/ /usr/local/share/ca-certificates/
COPY wheelhouse/ /wheelhouse/
COPY requirements.txt /tmp/requirements.txt
RUN install-packages /opt/venv /tmp/requirements.txt
LABEL harness.stage=build

FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
