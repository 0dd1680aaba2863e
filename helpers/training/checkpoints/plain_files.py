"""Read what plain ``torch.save`` has written: the one place that takes a file without a checksum."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch

from helpers.errors import InvalidRequest


def load_plain(path: str | Path, *, run_code: bool) -> Any:
    """Return what the file holds, on the CPU; see ``Checkpointer.load_plain``."""
    file = Path(path)
    if not file.is_file():
        raise InvalidRequest(f"There is no file {file}.", hint="Checkpointer.load(…) reads this library's own folders.")
    what = "and code in it is run" if run_code else "so damage in it would not be noticed"
    warnings.warn(f"{file} was written by plain torch.save: it has no checksum, {what}.", stacklevel=3)
    try:
        return torch.load(file, map_location="cpu", weights_only=not run_code)
    except pickle.UnpicklingError as error:
        raise InvalidRequest(
            f"{file} holds more than tensors and plain values: {str(error).splitlines()[0]}",
            hint="If you trust whoever made it: Checkpointer.load_plain(path, run_code=True)",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise InvalidRequest(f"{file} cannot be read by torch.load: {str(error).splitlines()[0]}") from error
