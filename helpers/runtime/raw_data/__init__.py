"""Whether raw data is what its manifest says: the part that a job asks for itself, so without more than Python."""

REFUSE = "refuse"
OFF = "off"
