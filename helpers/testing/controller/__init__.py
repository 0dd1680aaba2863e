"""The fake's own process: what ``slurmctld``, ``slurmd`` and ``slurmdbd`` are to a real cluster.

In reading order: ``server`` (the loop that answers and waits), ``request`` (a command that is being answered),
``cluster``, ``nodes`` and ``jobs`` (what is known), ``submission``, ``demand`` and ``refusal`` (a job that is taken,
or not), ``dependencies``, ``capacity`` (who gets which CPUs and GPUs), ``scheduler`` (who starts), ``starting`` and
``ending`` (the batch script, the limit, the requeue), ``step`` (what ``srun`` has started), ``processes``,
``variables`` and ``export`` (what they see), ``control`` (what a test commands). ``commands`` has a module for each
of Slurm's commands, ``notation`` one for each way in which Slurm writes things.
"""
