"""Support vector machines that a report compares with the heads on fixed features (thesis table 4.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from data_prep.splits.divide import Splits
from gpmodels.registry import head_family
from pipelines.labelled.data import LabelledData, PreparedMatrix
from pipelines.labelled.settings import SVMSettings
from pipelines.labelled.svms import (
    cross_validation_parts,
    svm_file,
    svm_predictors,
    train_svms,
)
from pipelines.runs.description import PRETRAINING
from pipelines.runs.job import Job
from pipelines.runs.models import load_model
from pipelines.runs.predictors import Predictor


@dataclass(frozen=True)
class SupportVectorMachines:
    """The support vector machines of a run, on what its heads see.

    Attributes:
        projected: Whether they see what the run's network makes of the features, which is not trained with
            the heads; else they see the features as they are.
    """

    projected: bool = True

    def train(self, job: Job[Any, Any, Any], network: keras.Model) -> None:
        """Train those that the settings name and the run does not have yet, where the data are features.

        Raises:
            InputError: The training examples of a class are of one group, or a file cannot be written.
        """
        if not job.settings.svms or not isinstance(job.data, PreparedMatrix):
            return
        train, selection = job.data.part(job.splits.train), job.data.part(job.splits.selection)
        train_svms(
            job.settings.svms,
            train.encoded_by(network) if self.projected else train,
            selection.encoded_by(network) if self.projected else selection,
            job.data.manifest.class_names,
            run=job.folder,
            seed=job.settings.seed,
            console=job.console,
        )

    def predictors(self, job: Job[Any, Any, Any], networks: Mapping[str, keras.Model]) -> list[Predictor]:
        """Return the rows of the report: the machines that the run has.

        Args:
            job: Job on the run.
            networks: Trained network of each head; what is not trained with the heads is the same in all, but
                for heads that need views by themselves.

        Raises:
            InputError: A file is damaged.
        """
        names = [name for name in job.settings.svms if svm_file(job.folder, name).is_file()]
        if not names or not self.projected:
            return svm_predictors(names, job.folder)
        joint = [network for name, network in networks.items() if not head_family(name).needs_views]
        network = joint[0] if joint else load_model(job, PRETRAINING).network
        return svm_predictors(names, job.folder, network)


def separable_classes(data: LabelledData[Any], splits: Splits, settings: SVMSettings) -> Sequence[str]:
    """Refuse classes that are too small for support vector machines.

    Raises:
        InputError: The training examples of a class are of one group.
    """
    if settings.svms and isinstance(data, PreparedMatrix):
        cross_validation_parts(data.part(splits.train), data.manifest.class_names)
    return ()
