"""Outputs of notebooks stay out of commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.project.notebooks import main, strip_outputs

if TYPE_CHECKING:
    from pathlib import Path

CODE = {"cell_type": "code", "source": ["1 + 1"], "metadata": {}, "outputs": [], "execution_count": None}
TEXT = {"cell_type": "markdown", "source": ["# Größe"], "metadata": {}}


def notebook(*cells: dict[str, object]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False)


def test_outputs_and_counts_are_taken_out_and_all_else_stays() -> None:
    run = {**CODE, "outputs": [{"output_type": "stream", "text": ["secret"]}], "execution_count": 7}
    assert json.loads(strip_outputs(notebook(TEXT, run))) == json.loads(notebook(TEXT, CODE))


def test_a_notebook_without_outputs_is_not_touched() -> None:
    """Its spaces are the editor's, and a hook that changes them at each commit would be switched off."""
    text = notebook(TEXT, CODE)
    assert strip_outputs(text) == text


def test_the_hook_names_what_it_changed_and_passes_the_second_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.ipynb"
    file.write_text(notebook({**CODE, "execution_count": 1}))
    assert main([str(file)]) == 1
    assert capsys.readouterr().out == f"took the outputs out of {file}; add it again\n"
    assert main([str(file)]) == 0


@pytest.mark.parametrize("text", ["no json", "[]", '{"cells": 1}'])
def test_what_is_no_notebook_is_named_and_left(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "a.ipynb"
    file.write_text(text)
    assert main([str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"{file} is no notebook: ")
    assert file.read_text() == text
