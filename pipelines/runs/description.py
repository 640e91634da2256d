"""A training run's folder: settings, description, one sub-folder for each trained head.

The files are:

    run/
      config.yaml            the settings as used
      run.json               data, sizes, N, the fitted temperature: what is needed to rebuild the models
      guarantees.json        what each head can guarantee by what was held out
      learned.txt            digests of what it was trained on and chose its best epoch by
      heads/<name>/          best.weights.h5, state.json, and the weights that it names to resume from
      heads/<name>/familiarity.safetensors
                             what an input is compared with to say how familiar it is
      heads/pretraining/     the network with a linear head that all heads start from
      tensorboard/<name>/
      ensemble/<number>/     further members of a deep ensemble, each a run with a linear head
      folds/<number>/        out-of-fold heads of a small folder, each a run without a fifth of the groups
"""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.image_settings import ImageKinds
from data_prep.files.json_files import read_json
from pipelines.command.folders import RUN, require_run

SCHEMA_VERSION = 1

PRETRAINING = "pretraining"
"""Name of the first stage of a run: the network with the linear head that all heads begin with."""


class RunDescription(BaseModel):
    """What a run knows beyond its settings.

    Attributes:
        schema_version: Of this file.
        application: E.g. `"lane"`.
        size: Height and width of the network's images.
        num_data: N, training points that count.
        kinds: What all prepared images are.
        batch_norm_momentum: Of the network.
        heads: Trained heads, in the order of the report.
        temperature: Of the linear head, fitted on the selection data; None before it is fitted.
        counts: Images in the training, selection and test parts.
        manifest_sha256: Which prepared data the run was trained on.
        seconds: Wall-clock time of each finished stage.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    application: str
    size: tuple[int, int]
    kinds: ImageKinds = ()
    num_data: int = Field(ge=1, lt=2**63)
    batch_norm_momentum: float
    heads: tuple[str, ...] = ()
    temperature: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    counts: dict[str, int]
    manifest_sha256: str
    seconds: dict[str, float] = {}

    def save(self, run: Path) -> None:
        """Write `run.json`."""
        write_text(run / RUN, self.model_dump_json(indent=1) + "\n")


Description = TypeVar("Description", bound=RunDescription)


def load_run(run: Path, cls: type[Description]) -> Description:
    """Read and check `run.json`.

    Args:
        run: Folder of the run.
        cls: The application's kind of description.

    Raises:
        InputError: The folder is no run, one of another schema version, or of another application.
    """
    require_run(run)
    path = run / RUN
    try:
        content = read_json(path)
        found = content.get("schema_version") if isinstance(content, dict) else None
        if found != SCHEMA_VERSION:
            raise InputError(
                f"{path} has schema version {found}, but this gpimaging reads {SCHEMA_VERSION}. "
                "Train again, or use the version that wrote it."
            )
        return cls.model_validate(content)
    except InputError:
        raise
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            if problem["loc"] == ("application",):
                raise InputError(
                    f"{path} is of a run of `gpimaging {problem['input']}`, but a run of "
                    f"{problem['ctx']['expected']} is expected. Give a run that its own `train` wrote."
                ) from error
        raise _no_description(path, cls, error) from error
    except ValueError as error:
        raise _no_description(path, cls, error) from error


def _no_description(path: Path, cls: type[RunDescription], error: ValueError) -> InputError:
    return InputError(f"{path} cannot be read as the description of a {cls.__name__}: {error}. Train again.")


def head_folder(run: Path, name: str) -> Path:
    """Return the folder of the checkpoints of a head, or of the pretraining."""
    return run / "heads" / name
