# Sfumato in a container, on a CPU or on a GPU:
#
#     docker build -t sfumato .
#     docker build -t sfumato:cuda --build-arg BASE=cuda .
#
# The ledger must outlive the container, so it is mounted; without the mount a run is refused before it spends anything:
#
#     docker run --rm --network none -v "$PWD/ledger:/ledger" -v "$PWD/scans:/data/scans:ro" -v "$PWD/out:/out" sfumato \
#         synthesize /data/scans --method dp-merf --epsilon 1 --size 28 --out /out/release
#
# INDEX is a package index beside the usual one, for builds of torch without CUDA; none is named here.
ARG BASE=cpu

FROM python:3.11-slim AS cpu

FROM nvidia/cuda:12.6.3-runtime-ubuntu24.04 AS cuda
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

FROM ${BASE} AS final
ARG INDEX=
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY sfumato ./sfumato
RUN python3 -m venv /opt/sfumato \
    && PIP_CONSTRAINT=constraints.txt /opt/sfumato/bin/pip install --no-cache-dir ${INDEX:+--extra-index-url "$INDEX"} '.[dicom,hf]' \
    && rm -rf /src/*
ENV PATH=/opt/sfumato/bin:$PATH \
    SFUMATO_LEDGER=/ledger/ledger.sqlite \
    SFUMATO_RUNS=/ledger/runs \
    SFUMATO_CACHE=/tmp/sfumato \
    PYTHONUNBUFFERED=1
# /ledger is not made here on purpose: a ledger inside the container would be forgotten with it, and the budget with it.
WORKDIR /out
USER 1000:1000
ENTRYPOINT ["sfumato"]
CMD ["--help"]
