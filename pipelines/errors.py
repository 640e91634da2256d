"""Errors that the command line reports by their message; without TensorFlow, so that it need not start."""


class TrainingDiverged(RuntimeError):  # noqa: N818 - what happened, and what the message says
    """The loss became NaN or infinite; the message says where and which checkpoint is still good."""


class ProcessLost(RuntimeError):  # noqa: N818 - what happened, and what the message says
    """Another process of a training on several machines ended or does not answer; the message says which."""
