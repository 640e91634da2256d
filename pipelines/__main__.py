"""`python -m pipelines` is `gpimaging`."""

from pipelines.cli import main

if __name__ == "__main__":
    main()
