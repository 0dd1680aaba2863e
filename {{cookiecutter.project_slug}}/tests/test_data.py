import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from {{ cookiecutter.package_name }}.config import PROJECT, Config
from {{ cookiecutter.package_name }}.data import deal, load, prepare


@pytest.mark.parametrize(("split", "images"), [("train", 1248), ("validation", 181), ("test", 368)])
def test_splits_have_their_size(split: str, images: int):
    assert len(load(Config.data, split)) == images


def test_an_image_is_eight_by_eight_between_zero_and_one():
    images, digits = load(Config.data, "train").tensors
    assert images.shape == (1248, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert sorted(set(digits.tolist())) == list(range(10))


def test_prepared_data_is_what_the_raw_file_says(tmp_path: Path):
    prepared = tmp_path / "made" / "digits.npz"
    assert prepare(Config.data, prepared) == 1797
    assert torch.equal(load(prepared, "test").tensors[0], load(Config.data, "test").tensors[0])
    assert torch.equal(load(prepared, "test").tensors[1], load(Config.data, "test").tensors[1])


def test_each_digit_is_dealt_in_the_same_shares():
    """A split without some digit would judge nothing about it."""
    splits = deal(np.repeat(np.arange(10), 20))
    assert splits.tolist() == (["test"] * 2 + ["validation"] + ["train"] * 7) * 20


def test_raw_data_is_as_declared():
    """Results lead back to files that nobody has touched."""
    subprocess.run([sys.executable, "-m", "helpers.cli", "data", "verify"], cwd=PROJECT, check=True)
