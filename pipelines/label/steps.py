"""What `gpimaging label` does: serve the page, compute features meanwhile, and say what comes next."""

from __future__ import annotations

import getpass
import logging
import secrets
import shlex
import socket
import threading
import webbrowser
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.tables import read_table
from data_prep.prepared.manifest import application_of
from data_prep.prepared.preparing import write_skipped
from pipelines.command.config import CONFIG_NAME, dump_settings, load_settings
from pipelines.command.console import say, show_table
from pipelines.command.folders import PREDICTIONS
from pipelines.label.answers import LABELS, REVIEW, Answers
from pipelines.label.candidates import is_of_cells, prepared_candidates, referred_events
from pipelines.label.encoding import PoolEncoder
from pipelines.label.exchange import with_label_studio, write_class_folders, write_label_studio
from pipelines.label.patches import has_patches, prepared_patches, referred_patches, tissue_command
from pipelines.label.pool import Pool, find_pool
from pipelines.label.reviewing import (
    predicted_classes,
    predicted_folder,
    referred_first,
    require_other_folder,
    trained_classes,
    with_prepared,
)
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from pipelines.label.sides import with_former_labels
from pipelines.trunks.application import LARGE_ENOUGH, loaded_trunk

_SIDE = (LARGE_ENOUGH, LARGE_ENOUGH)
_LOG = logging.getLogger(__name__)


def open_pool(
    settings: LabelSettings,
    images: Path | None,
    out: Path,
    *,
    table: Path | None = None,
    source: Path | None = None,
    is_review: bool = False,
) -> Pool:
    """Return the images, with what predictions or a prepared folder say of them.

    Args:
        settings: Of the step.
        images: Folder of images; None for the one that predictions were made of.
        out: Folder of the labels, which gets pictures of patches or candidates where these are labelled.
        table: CSV file with the column image, and perhaps class and group, or an export of Label Studio.
        source: Folder that `predict` wrote, whose referred images are labelled, a prepared folder, whose
            labels and groups are known, or a run or a bundle, whose classes are.
        is_review: Whether suspect labels are looked at again.

    Raises:
        InputError: An input cannot be used.
    """
    if source is not None and (source / PREDICTIONS).exists() and is_review:
        raise InputError("--suspects looks at labels; --from names predictions. Leave one of them out.")
    if images is not None:
        require_other_folder(out, images)
    if settings.by == "patch":
        return _patches(settings, images, out, table, source)
    if source is not None and is_of_cells(source):
        if table is not None:
            raise InputError("--from names candidates of cells, so --table has nothing to say. Leave it out.")
        find = referred_events if (source / PREDICTIONS).exists() else prepared_candidates
        return find(source, images, out)
    if source is not None and (source / PREDICTIONS).exists():
        return _referred(settings, images, out, source, table)
    if images is None:
        raise InputError("IMAGES is missing: gpimaging label IMAGES. Name the folder of the images.")
    pool = _of_images(settings, images, out, table, source)
    if is_review and not any(image.label for image in pool.images):
        raise InputError(
            f"{images}: no image has a label that could be suspect. Give class folders, a --table with the "
            "column class, or the prepared folder by --from."
        )
    return replace(pool, purpose="suspects") if is_review else pool


def _patches(
    settings: LabelSettings, images: Path | None, out: Path, table: Path | None, source: Path | None
) -> Pool:
    """Return the patches of images of tissue that were predicted or prepared."""
    if source is not None and table is None and has_patches(source):
        return referred_patches(source, images, out, settings)
    if source is None or table is not None or application_of(source) != "histopathology":
        raise InputError(
            "by=patch is for tissue: name predictions or a prepared folder of histopathology by --from, and "
            "give no --table."
        )
    return prepared_patches(source, images, out)


def _of_images(
    settings: LabelSettings, images: Path, out: Path, table: Path | None, source: Path | None
) -> Pool:
    """Return the images with what a prepared folder, a run or a bundle says of them."""
    trained = None if source is None else trained_classes(source)
    if trained is not None and not settings.classes:
        settings = settings.model_copy(update={"classes": trained})
    pool = _listed(images, settings, table)
    if trained is not None:
        pool = replace(pool, classes=tuple(dict.fromkeys((*trained, *pool.classes))))
    elif source is not None:
        pool = with_prepared(pool, source)
        if application_of(source) == "histopathology":
            pool = replace(pool, prepare=tissue_command(images, source, out))
    return pool


def _referred(
    settings: LabelSettings, images: Path | None, out: Path, predictions: Path, table: Path | None
) -> Pool:
    """Return the images of a folder, those first that a model left to a person."""
    images = images or predicted_folder(predictions)
    classes = settings.classes or predicted_classes(predictions)
    pool = _listed(images, settings.model_copy(update={"classes": classes}), table)
    tissue = tissue_command(images, None, out) if has_patches(predictions) else ()
    return replace(referred_first(pool, predictions), prepare=tissue)


def _listed(images: Path, settings: LabelSettings, table: Path | None) -> Pool:
    """Return the images of a folder with what a table or an export of Label Studio says of them."""
    if table is not None and table.suffix.lower() == ".json":
        return with_label_studio(find_pool(images, settings), table)
    return find_pool(images, settings, table=table)


def label_pool(
    pool: Pool,
    settings: LabelSettings,
    out: Path,
    *,
    port: int = 0,
    is_browser_opened: bool = True,
    console: Console,
) -> None:
    """Serve the page until Ctrl-C, then say which commands come next.

    Args:
        pool: The images.
        settings: Of the step.
        out: Folder of the labels, which goes on where it is there.
        port: On which the server listens; 0 for any that is free.
        is_browser_opened: Whether the page opens in the browser.
        console: For what a person is to know.

    Raises:
        InputError: An input cannot be used, the server is not installed, or the port is taken.
    """
    require_server()
    from pipelines.label.server import HOST, make_server  # noqa: PLC0415 - the extra may be missing

    session, encoder = _open_session(pool, settings, out)
    with (
        closing(session),
        closing(_listening(HOST, port)) as listening,
    ):
        session.write_tables()
        encoding = threading.Thread(
            target=_encode_in_background, args=(session, encoder), name="features", daemon=True
        )
        encoding.start()
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(16)
        address = f"http://{HOST}:{port}/{token}/"
        left_out = f"; {len(pool.skipped)} files cannot be used (skipped.csv)" if pool.skipped else ""
        say(console, f"{len(pool.images)} images{left_out}. Label them at {address} (Ctrl-C ends).")
        if is_browser_opened:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        _serve(make_server(session, token=token, port=port, who=_user()), listening)
        session.close()
        encoding.join()
    _show_next(pool, out, console)


def _open_session(pool: Pool, settings: LabelSettings, out: Path) -> tuple[Session, PoolEncoder]:
    """Begin or go on in a folder of labels."""
    require_other_folder(out, pool.folder)
    out.mkdir(parents=True, exist_ok=True)
    answers = Answers(out)
    pool = with_former_labels(pool, out, answers.images())
    config = out / CONFIG_NAME
    former = load_settings(LabelSettings, config=config).classes if config.exists() else ()  # keys stay
    classes = tuple(dict.fromkeys((*former, *settings.classes, *pool.classes, *answers.classes())))
    settings = settings.model_copy(update={"classes": classes})
    trunk = loaded_trunk(settings, settings.weights, _SIDE)
    session = Session(pool, classes, answers, seed=settings.seed)
    dump_settings(settings, out / CONFIG_NAME)
    write_skipped(out, pool.skipped)
    fit = settings.fit if pool.seen_share == (1.0, 1.0) else "pad"
    return session, PoolEncoder(trunk, out, fit, pool.levels, pool.seen_share)


def export_labels(pool: Pool, settings: LabelSettings, out: Path, target: Path, *, console: Console) -> None:
    """Write the labels for another program, and what the model expects of the other images.

    Args:
        pool: The images.
        settings: Of the step.
        out: Folder of the labels.
        target: File of tasks for Label Studio, ending in .json, or a folder of class folders to make.
        console: For what a person is to know.

    Raises:
        InputError: An input cannot be used, or the target cannot be written.
    """
    if target.exists():
        raise InputError(f"--export {target}: is there already. Give another name.")
    session, encoder = _open_session(pool, settings, out)
    with closing(session):
        if target.suffix.lower() == ".json":
            _encode(session, encoder)  # without features there would be no predictions
            write_label_studio(target, session.labelled_images(), session.classes)
        else:
            write_class_folders(target, session.labelled_images())
    say(console, f"{target} written.")


def require_server() -> None:
    """Raise `InputError` where the extra of the server is not installed."""
    try:
        import starlette  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise InputError(
            "The page needs a server that is not installed. Install it with `pip install 'gpimaging[label]'`."
        ) from error


def _user() -> str:
    """Return the name that the user has on this machine; empty where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _listening(host: str, port: int) -> socket.socket:
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # whoever opens the address at once waits for the server
    except OSError as error:
        listening.close()
        raise InputError(
            f"--port {port}: cannot be listened on ({error.strerror}). Give another one, or none for any "
            "that is free."
        ) from error
    return listening


def _serve(app: object, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    import uvicorn  # noqa: PLC0415 - the extra may be missing

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    with suppress(KeyboardInterrupt):  # which uvicorn raises again when all is answered
        uvicorn.Server(config).run(sockets=[listening])


def _encode(session: Session, encoder: PoolEncoder) -> None:
    paths = [image.path for image in session.pool.images]
    encoded = encoder.encode(paths, on_done=session.encoded, is_stopped=lambda: session.is_closed)
    if encoded is not None:
        session.learn_from(encoded)


def _encode_in_background(session: Session, encoder: PoolEncoder) -> None:
    """Compute the features in a thread: the page shows an error, and the labelling goes on without them."""
    try:
        _encode(session, encoder)
    except Exception as error:  # noqa: BLE001 - nothing else reads the errors of this thread
        is_bug = not isinstance(error, InputError)
        _LOG.warning("%s Images come in a random order; nothing is predicted.", error, exc_info=is_bug)
        session.fail(str(error) or type(error).__name__)


def _show_next(pool: Pool, out: Path, console: Console) -> None:
    """Say what was labelled and how a model is trained from it."""
    labels = out / LABELS
    counts = Counter(row["class"] for row in read_table(labels, ("image", "class")).values())
    review = len(read_table(out / REVIEW, ("image", "answer")))
    show_table(
        console,
        f"Labels in {labels}",
        {**counts, "unsure or not usable (review.csv)": review, "images": len(pool.images)},
    )
    if pool.write_annotations is not None:
        labels = pool.write_annotations()
    elif len(counts) < 2:
        say(console, "A model needs labels of two classes. The same command goes on.")
        return
    prepared, run = out / "prepared", out / "run"
    prepare = pool.prepare or ("classify", "prepare", "--images", pool.folder, "--table")
    network = () if pool.prepare else ("--set", "network=efficientnet_lite0")
    commands = (
        (*prepare, labels, "--out", prepared),
        (prepare[0], "train", "--data", prepared, "--out", run, *network),
    )
    say(console, "The same command goes on. A model is trained from these labels with:")
    for command in commands:
        text = shlex.join(["gpimaging", *map(str, command)])
        say(console, f"  {text}")
