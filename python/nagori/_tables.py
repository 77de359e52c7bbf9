"""Rows as tables of other libraries, where they are installed."""

from typing import Any


def frame(rows: list[dict[str, Any]]) -> Any:
    """A pandas DataFrame."""
    try:
        import pandas
    except ImportError as e:
        raise ImportError("a DataFrame needs pandas: pip install pandas") from e
    return pandas.DataFrame(rows)


def arrow(rows: list[dict[str, Any]]) -> Any:
    """An Arrow table."""
    try:
        import pyarrow
    except ImportError as e:
        raise ImportError("an Arrow table needs pyarrow: pip install pyarrow") from e
    return pyarrow.Table.from_pylist(rows)
