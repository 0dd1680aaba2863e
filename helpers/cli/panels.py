"""The groups in which ``helpers --help`` shows the commands, in their order."""

EVERYDAY = "Everyday"
PROJECT = "Project"
LAB = "Lab"
PANELS = (EVERYDAY, PROJECT, LAB)
