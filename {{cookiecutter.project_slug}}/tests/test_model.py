import torch

from {{ cookiecutter.package_name }}.model import DigitNet


def test_gives_one_score_for_each_digit():
    assert DigitNet()(torch.zeros(5, 1, 8, 8)).shape == (5, 10)


def test_every_weight_learns():
    """A layer that is not connected would stay as it was drawn, and cost accuracy in silence."""
    model = DigitNet()
    model(torch.rand(8, 1, 8, 8)).sum().backward()
    assert [name for name, weight in model.named_parameters() if not weight.grad.any()] == []
