"""torch's key-value stores, under one roof: torch exports them without telling type checkers."""

from torch.distributed import HashStore, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

__all__ = ["HashStore", "PrefixStore", "Store", "TCPStore"]
