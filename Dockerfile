# gpimaging on processors:
#
#   docker build -t gpimaging .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" -e XDG_CACHE_HOME=/data/.cache gpimaging \
#       classify prepare --images images --out prepared
#
# Paths are those of the mounted folder, and files that are written belong to who runs it. Other extras, such as
# for DICOM: docker build --build-arg EXTRAS=pretrained,dicom -t gpimaging . (with BuildKit, Docker's default).
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
# OpenCV opens no window here, but loads these libraries.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*
ARG EXTRAS=pretrained
COPY constraints.txt /tmp/
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --constraint /tmp/constraints.txt "$(echo /wheels/*.whl)[$EXTRAS]" \
    && useradd --uid 1000 --create-home gpimaging
# Features of pretrained networks and figures' fonts; any user may write there.
ENV XDG_CACHE_HOME=/tmp/cache MPLCONFIGDIR=/tmp/cache TF_CPP_MIN_LOG_LEVEL=2
USER 1000
WORKDIR /data
ENTRYPOINT ["gpimaging"]
CMD ["--help"]
