"""Prepare images with one number each: a table of images becomes shards and a manifest."""

from functools import partial
from pathlib import Path

from data_prep.labelled.image_plan import plan_images, prepare_image
from data_prep.labelled.preparing import PrepareResult, prepare_labelled
from data_prep.measure.manifest import MeasureManifest
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.measure.table import read_measured
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers


def prepare_measure(
    images: Path,
    out: Path,
    settings: MeasurePrepareSettings | None = None,
    *,
    table: Path,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[MeasureManifest]:
    """Turn images with one number each into a prepared folder.

    The table has the columns image and value, and perhaps group and split. All other arguments, and the
    result, are those of `prepare_classify`.

    Raises:
        InputError: No image can be used, the numbers cannot, the splits cannot be made, or `out` exists or
            cannot be written.

    Example:
        >>> table = Path("counts.csv")
        >>> result = prepare_measure(Path("cells"), Path("out"), table=table)  # doctest: +SKIP
        >>> result.manifest.unit, result.manifest.num_examples  # doctest: +SKIP
        ('cells', 412)
    """
    settings = settings or MeasurePrepareSettings()
    check_destination(out, (images, table), overwrite=overwrite)
    measured = read_measured(images, table, settings)
    found = (measured.sources, measured.skipped)
    plan = plan_images(images, table, settings, jobs=jobs, progress=progress, measured=found)
    return prepare_labelled(
        plan.labelled,
        settings,
        out,
        stage="Resizing images",
        what="image",
        origin=images,
        prepare_source=partial(prepare_image, levels=plan.levels),
        make_manifest=lambda fields: MeasureManifest(
            size=settings.size,
            levels=plan.levels,
            quantity=settings.column,
            unit=measured.unit,
            notes=(*plan.notes, *measured.notes),
            **fields,
        ),
        file_of=lambda image: image.source.path,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
    )
