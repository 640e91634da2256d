"""The fit that most tests here make: all of one kind and number of columns share one traced engine."""

from typing import Final

SMALL: Final = {"num_inducing": 8, "max_iterations": 5, "random_state": 0}
