"""`nagori sweep`, and `python -m nagori.sweep`: see docs/studies.md."""

from .study.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
