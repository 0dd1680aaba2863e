"""What ranks do together around a piece of work that one of them does first."""

from unittest.mock import Mock

import pytest

from helpers.training import main_first
from helpers.training.ranks import collectives
from helpers.training.ranks.peers import PeersLost


def test_a_failure_of_rank_0_which_goes_first_is_told_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would go on with a download that is not there, or wait for an hour."""
    main, other = Mock(is_main=True), Mock(is_main=False)
    monkeypatch.setattr(collectives, "meet_peers", Mock(side_effect=[main, other]))
    with pytest.raises(ValueError, match="no network"), main_first():
        raise ValueError("no network")
    [(key, told)] = [call.args for call in main.tell.call_args_list]
    other.hear = Mock(side_effect=lambda name, **_: told if name == key else "")
    begun = Mock()
    with pytest.raises(PeersLost, match=r"Rank 0, which goes first, failed: ValueError: no network"), main_first():
        begun()
    begun.assert_not_called()
