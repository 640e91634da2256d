#!/usr/bin/env bash
# Reproduces the CamVid table of docs/results/lane.md: walkable surface (road and pavement) with two seeds, pavement with one.
#
#   benchmarks/camvid.sh CAMVID_FOLDER OUTPUT_FOLDER
#
# CAMVID_FOLDER holds train, trainannot, val and valannot, as in the SegNet tutorial. Finished parts are not repeated.
set -euo pipefail

camvid=$1
out=$2
here=$(dirname "${BASH_SOURCE[0]}")

prepare() { # name, mask values
    for part in train val; do
        [ -e "$out/$1/$part/manifest.json" ] && continue
        fraction=0
        [ $part = val ] && fraction=1
        gpimaging lane prepare --images "$camvid/$part" --masks "$camvid/${part}annot" --out "$out/$1/$part" \
            --lane-values "$2" --ignore-values 11 --size 96x128 --set test_fraction=$fraction
    done
}

run() { # name, seed
    local run=$out/$1/seed_$2
    gpimaging lane train --data "$out/$1/train" --out "$run" --config "$here/camvid.yaml" --seed "$2" --resume
    [ -e "$run/evaluation/metrics.json" ] ||
        gpimaging lane evaluate --data "$out/$1/val" --model "$run" --out "$run/evaluation"
}

prepare walkable 3,4
prepare pavement 4
run walkable 0
run walkable 1
run pavement 0
for surface in walkable pavement; do
    PYTHONPATH=$here/.. python -m benchmarks.summarise_seeds "$out/$surface"/seed_*/evaluation/metrics.json
done
