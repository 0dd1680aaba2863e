"""Run the command as ``python -m helpers.cli``, where its script is not on PATH."""

from helpers.cli.main import app

app(prog_name="helpers")
