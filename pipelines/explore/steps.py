"""What `gpimaging explore` does: look at a data set, or fill in missing pixels."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file, atomic_folder, refuse_existing
from data_prep.prepared.preparing import write_skipped
from pipelines.command.console import show_table
from pipelines.command.folders import METRICS
from pipelines.explore.completion import complete_images
from pipelines.explore.completion_files import completion_facts, write_completed
from pipelines.explore.latent import fit_map
from pipelines.explore.page import PAGE, Findings, render_page
from pipelines.explore.predictions import read_predicted
from pipelines.explore.reading import read_examples
from pipelines.explore.settings import ExploreSettings
from pipelines.explore.suspects import find_suspects
from pipelines.explore.tables import EMBEDDING, write_embedding, write_metrics


def explore(
    settings: ExploreSettings,
    *,
    data: Path,
    out: Path,
    predictions: Path | None = None,
    masks: Path | None = None,
    jobs: int = 1,
    overwrite: bool = False,
    console: Console,
) -> Findings:
    """Place the examples of a data set on a map; write the page, the table and the metrics.

    Args:
        settings: Of the step.
        data: Prepared folder, or folder of images.
        out: Folder to write.
        predictions: Table of a model's predictions of the same examples.
        masks: Refused: only missing pixels are filled by masks.
        jobs: Number of processes.
        overwrite: Whether the folder of an earlier exploration is replaced.
        console: For progress and the table.

    Raises:
        InputError: The data or the predictions cannot be used, or `out` exists or cannot be written.
    """
    if masks is not None:
        raise InputError("--masks says which pixels are missing: give --complete with it, or leave it out.")
    refuse_existing(out, overwrite=overwrite)
    examples = read_examples(data, settings, jobs=jobs, console=console)
    predicted = None if predictions is None else read_predicted(predictions, examples.files, examples.classes)
    console.print(f"Placing {len(examples.files)} examples by {examples.features.words}", markup=False)
    latent = fit_map(examples.features, settings)
    suspicion = (
        None
        if examples.classes is None
        else find_suspects(latent, examples.classes, examples.groups, settings.neighbours)
    )
    findings = Findings(examples, latent, suspicion, predicted)
    with atomic_folder(out, overwrite=overwrite) as folder:
        page = render_page(f"A look at {data.resolve().name}", findings, settings)
        with atomic_file(folder / PAGE) as temporary:
            temporary.write_text(page, encoding="utf-8")
        write_embedding(folder / EMBEDDING, findings)
        write_metrics(folder / METRICS, findings, settings)
        write_skipped(folder, examples.skipped)
    for note in examples.notes:
        console.print(note, markup=False)
    show_table(console, f"{out / PAGE}: open it in a browser", _facts(findings))
    return findings


def _facts(findings: Findings) -> dict[str, str]:
    examples, latent, suspicion = findings.examples, findings.latent, findings.suspicion
    said = {
        "Examples": str(len(examples.files)),
        "Left out": f"{len(examples.skipped)}, see skipped.csv" if examples.skipped else "none",
        "Relevant dimensions": f"{latent.num_relevant} of {len(latent.relevance)}",
        "Oddest": examples.files[findings.oddest[0]],
    }
    if suspicion is not None:
        said["Neighbours have the class"] = f"{suspicion.agreement:.1%}"
        said["Probable label errors"] = str(len(suspicion.suspects))
    return {**said, "Seconds of the fit": f"{latent.seconds:.1f}"}


def complete(
    settings: ExploreSettings,
    *,
    data: Path,
    out: Path,
    masks: Path | None = None,
    predictions: Path | None = None,
    overwrite: bool = False,
    console: Console,
) -> None:
    """Fill in the missing pixels of small images; write pictures of means and deviations, and a page.

    Args:
        settings: Of the step.
        data: Folder of images.
        out: Folder to write.
        masks: Folder of masks; None where transparent pixels are missing.
        predictions: Refused: it colours a map.
        overwrite: Whether the folder of an earlier exploration is replaced.
        console: For the table.

    Raises:
        InputError: The images or masks cannot be used, or `out` exists or cannot be written.
    """
    if predictions is not None:
        raise InputError("--predictions colours a map: give it without --complete.")
    refuse_existing(out, overwrite=overwrite)
    completed = complete_images(data, masks, settings, console=console)
    with atomic_folder(out, overwrite=overwrite) as folder:
        write_completed(folder, f"Missing pixels of {data.resolve().name}", completed, settings)
    show_table(console, f"{out}: pictures, and a page of them", completion_facts(completed))
