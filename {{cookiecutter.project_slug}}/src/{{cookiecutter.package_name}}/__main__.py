"""Let ``python -m`` run the command line."""

from .cli import app

app()
