"""What a process computes on: its device, its number format, its threads."""
