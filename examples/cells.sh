#!/usr/bin/env bash
# Events of cells in time-lapse microscopy, from annotated sequences to the events of new ones. Copy it and change what you need.
#
#   examples/cells.sh SEQUENCES ANNOTATIONS NEW OUT [TRAINING OPTIONS...]
#
#   SEQUENCES     a folder of videos, of TIFF files of several pages, or of folders of frames: three sequences at least
#   ANNOTATIONS   a CSV file with the columns sequence,frame,x,y,kind
#   NEW           a folder of new sequences, or one sequence
#   OUT           folder for everything that is written
#
# For example, with all kinds of events as one class (all settings: gpimaging cells train --help-settings):
#
#   ONE_KIND=event examples/cells.sh wells events.csv new_wells found --set components=10
#
# Call it again after an interruption: finished steps are not repeated, and training goes on where it was. After a change of
# data or settings, use another OUT.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 SEQUENCES ANNOTATIONS NEW OUT [TRAINING OPTIONS...]" >&2
    exit 2
fi
sequences=$1 annotations=$2 new=$3 out=$4
training_options=("${@:5}")

# Without ONE_KIND each kind of event is a class. Sequences of one dish should stay together:
# prepare_options+=(--group-pattern '^(dish[0-9]+)').
prepare_options=()
if [ -n "${ONE_KIND:-}" ]; then
    prepare_options+=(--one-kind "$ONE_KIND")
fi

# Events with an entropy above this many nats are for a person: the largest is 1.10 with two kinds of events, 0.69 with
# ONE_KIND. Choose it from the referral curve of the report.
refer_above=${REFER_ABOVE:-$([ -n "${ONE_KIND:-}" ] && echo 0.5 || echo 0.9)}

mkdir -p "$out"

# 1. Sequences to described candidates. About half of the events become the test part; what cannot be used is listed.
[ -e "$out/prepared/manifest.json" ] ||
    gpimaging cells prepare --sequences "$sequences" --annotations "$annotations" --out "$out/prepared" \
        ${prepare_options[@]+"${prepare_options[@]}"}

# 2. Train each head. Watch it with: tensorboard --logdir OUT/run/tensorboard
gpimaging cells train --data "$out/prepared" --out "$out/run" --resume ${training_options[@]+"${training_options[@]}"}

# 3. Judge all heads on the test part: metrics.json and report.html.
[ -e "$out/evaluation/metrics.json" ] ||
    gpimaging cells evaluate --data "$out/prepared" --model "$out/run" --out "$out/evaluation"

# 4. Export the head that the evaluation says to take and check the bundle.
gpimaging cells export --model "$out/run" --out "$out/bundle" --metrics "$out/evaluation/metrics.json" --overwrite
gpimaging verify "$out/bundle"

# 5. Find the events of the new sequences; this needs the bundle only.
[ -e "$out/predictions/predictions.csv" ] ||
    gpimaging cells predict --model "$out/bundle" --input "$new" --out "$out/predictions" --refer-above "$refer_above"

echo "Report: $out/evaluation/report.html"
echo "Events and marked sequences: $out/predictions"
