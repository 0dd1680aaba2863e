"""Keep raw data as it was received: declare it, lock it, and let no commit change it unnoticed."""
