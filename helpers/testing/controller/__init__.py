"""The fake's own process: what ``slurmctld``, ``slurmd`` and ``slurmdbd`` are to a real cluster.

In reading order: ``server`` (the loop that answers and waits), ``jobs`` (what is known of a job), ``words``
and ``hostlists`` (Slurm's notations), ``options`` and ``sbatch`` (reading a submission), ``arrays`` and
``dependencies``, ``capacity`` (who gets which CPUs and GPUs), ``scheduler`` (who starts), ``running`` (the
batch script and its end), ``steps`` (``srun``), ``variables``, and one module for each command that looks or
changes: ``squeue``, ``sacct``, ``sinfo``, ``scontrol``, ``scancel``; ``control``: what a test commands.
"""
