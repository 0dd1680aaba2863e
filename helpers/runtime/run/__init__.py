"""What a run is on the disk: its folder, its records and who may read them."""
