"""The prepare step of ``gpimaging histopathology``: images or slides become patches, and what that gave."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from rich.console import Console

from data_prep.histopathology import prepare_histopathology
from data_prep.histopathology_manifest import HistopathologyManifest
from data_prep.histopathology_settings import HistopathologyPrepareSettings
from data_prep.labelled_preparing import PrepareResult
from pipelines.labelled_steps import say_prepared
from pipelines.progress import stage_bars


def prepare(
    settings: HistopathologyPrepareSettings,
    *,
    images: Path,
    labels: Path | None,
    masks: Path | None,
    out: Path,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult[HistopathologyManifest]:
    """Turn images of tissue into patches; see :func:`data_prep.histopathology.prepare_histopathology`.

    Raises:
        InputError: No image can be used, or ``out`` cannot be written.
    """
    started = perf_counter()
    with stage_bars(console) as advance:
        result = prepare_histopathology(
            images,
            out,
            settings,
            labels=labels,
            masks=masks,
            jobs=jobs,
            overwrite=overwrite,
            progress=advance,
        )
    seconds = perf_counter() - started
    manifest = result.manifest
    sources = {example.source for example in manifest.examples}
    written = (
        f"{manifest.num_examples} patches of {len(sources)} images ({manifest.num_features} features each, "
        f"{manifest.num_examples / seconds:.0f} patches/s)"
    )
    say_prepared(result, manifest.examples, out, console, written=written, warnings=_warnings(manifest))
    return result


def _warnings(manifest: HistopathologyManifest) -> tuple[str, ...]:
    if any(example.group != example.source for example in manifest.examples):
        return ()
    alone = (
        "nothing says which images are of one patient, so each counts as a patient of its own. If that is "
        "not so, scores will flatter: give patients in the table of labels, or group_pattern."
    )
    return (alone,)
