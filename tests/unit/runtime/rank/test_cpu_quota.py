"""What a control group allows: fewer CPUs' worth of time than the process sees."""

from pathlib import Path

import pytest

from helpers.runtime.rank.cpu_quota import read_quota


@pytest.mark.parametrize(
    ("files", "line", "quota"),
    [
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, "0::/a/b", 1.5),
        ({"a/cpu.max": "max 100000"}, "0::/a", None),
        ({"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/a", 2.0),
        ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/a", None),
    ],
)
def test_the_quota_is_read_of_both_versions(
    tmp_path: Path, files: dict[str, str], line: str, quota: float | None
) -> None:
    """The tightest of all groups above counts."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "self").write_text(line + "\n")
    assert read_quota(tmp_path, tmp_path / "self") == quota
