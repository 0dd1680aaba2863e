from helpers.errors import (
    ClusterUnreachable as ClusterUnreachable,
    DependencyFailed as DependencyFailed,
    HelpersError as HelpersError,
    InvalidRequest as InvalidRequest,
    JobCancelled as JobCancelled,
    JobError as JobError,
    JobExited as JobExited,
    JobFacts as JobFacts,
    JobFailed as JobFailed,
    JobKilled as JobKilled,
    JobLost as JobLost,
    JobOutOfMemory as JobOutOfMemory,
    JobPreempted as JobPreempted,
    NodeFailed as NodeFailed,
    Rejected as Rejected,
    ResultNotSaved as ResultNotSaved,
    SetupFailed as SetupFailed,
    TimeLimitReached as TimeLimitReached,
)
from helpers.runtime.current import Run as Run
from helpers.runtime.current import current_run as current_run
from helpers.submission.attach import attach as attach
from helpers.submission.job import Job as Job
from helpers.submission.submit import Executor as Executor
from helpers.submission.submit import Preview as Preview
from helpers.submission.submit import submit as submit

__version__: str
