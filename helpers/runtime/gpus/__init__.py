"""The GPUs of this machine: which there are, who uses them, who may have them next."""
