#!/usr/bin/env bash
# Many slides on the workers of a Dask cluster: prepare them, and predict new ones. Copy it and change what you need.
#
#   examples/cluster_slides.sh IMAGES LABELS BUNDLE SLIDES OUT
#
#   IMAGES   a folder of labelled images or whole slides
#   LABELS   CSV with the columns file, label and patient; - where each class has a subfolder of its own
#   BUNDLE   a bundle that `gpimaging histopathology export` wrote, to predict with; - to prepare alone
#   SLIDES   a folder of new images or slides to predict; - with no bundle
#   OUT      folder for everything that is written
#
# Without CLUSTER two processes of this machine work. With it, a scheduler and workers that run (see docs/scaling.md):
#
#   CLUSTER=tcp://head:8786 examples/cluster_slides.sh archive labels.csv models_saved/tissue new_slides out
#
# Call it again after an interruption: a folder that is prepared stays, and predict goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -ne 5 ]; then
    echo "usage: $0 IMAGES LABELS BUNDLE SLIDES OUT" >&2
    exit 2
fi
images=$1 labels=$2 bundle=$3 slides=$4 out=$5
cluster=${CLUSTER:-local:2}

# Side of a patch in pixels. For slides of several magnifications also: prepare_options+=(--mpp 0.5).
prepare_options=(--patch-size "${PATCH:-200}")
if [ "$labels" != - ]; then
    prepare_options+=(--labels "$labels")
fi

mkdir -p "$out"
if [ ! -e "$out/prepared/manifest.json" ]; then
    gpimaging histopathology prepare --images "$images" --out "$out/prepared" --cluster "$cluster" "${prepare_options[@]}"
fi
if [ "$bundle" != - ]; then
    gpimaging histopathology predict --model "$bundle" --input "$slides" --out "$out/predictions" --cluster "$cluster"
fi
