"""torch's key-value stores, under one roof: torch exports them without telling type checkers."""

from torch.distributed import HashStore, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed import rendezvous as open_by_url  # type: ignore[attr-defined]

__all__ = ["HashStore", "PrefixStore", "Store", "TCPStore", "open_by_url"]
