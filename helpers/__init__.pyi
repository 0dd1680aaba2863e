from helpers.errors import (
    ClusterUnreachable as ClusterUnreachable,
)
from helpers.errors import (
    DependencyFailed as DependencyFailed,
)
from helpers.errors import (
    EnvironmentMismatch as EnvironmentMismatch,
)
from helpers.errors import (
    GpuOutOfMemory as GpuOutOfMemory,
)
from helpers.errors import (
    HelpersError as HelpersError,
)
from helpers.errors import (
    InvalidRequest as InvalidRequest,
)
from helpers.errors import (
    JobCancelled as JobCancelled,
)
from helpers.errors import (
    JobError as JobError,
)
from helpers.errors import (
    JobExited as JobExited,
)
from helpers.errors import (
    JobFacts as JobFacts,
)
from helpers.errors import (
    JobFailed as JobFailed,
)
from helpers.errors import (
    JobKilled as JobKilled,
)
from helpers.errors import (
    JobLost as JobLost,
)
from helpers.errors import (
    JobOutOfMemory as JobOutOfMemory,
)
from helpers.errors import (
    JobPreempted as JobPreempted,
)
from helpers.errors import (
    NodeFailed as NodeFailed,
)
from helpers.errors import (
    RawDataChanged as RawDataChanged,
)
from helpers.errors import (
    Rejected as Rejected,
)
from helpers.errors import (
    ResultNotLoaded as ResultNotLoaded,
)
from helpers.errors import (
    ResultNotSaved as ResultNotSaved,
)
from helpers.errors import (
    SetupFailed as SetupFailed,
)
from helpers.errors import (
    TimeLimitReached as TimeLimitReached,
)
from helpers.runtime.current import Run as Run
from helpers.runtime.current import current_run as current_run
from helpers.runtime.rank.tensorflow import export_tf_config as export_tf_config
from helpers.submission.command import submit_command as submit_command
from helpers.submission.jobs.array import JobArray as JobArray
from helpers.submission.jobs.array import attach_array as attach_array
from helpers.submission.jobs.attach import attach as attach
from helpers.submission.jobs.job import Job as Job
from helpers.submission.submit import Executor as Executor
from helpers.submission.submit import Preview as Preview
from helpers.submission.submit import submit as submit
from helpers.submission.submit import submit_array as submit_array
from helpers.submission.sweep import call as call
from helpers.submission.sweep import grid as grid

__version__: str
