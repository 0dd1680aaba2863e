"""Make a root file system for Charliecloud out of this machine's own Python: no network, some tenths of a second.

The interpreter and what it is linked with are copied; the standard library and the packages are bound by the
settings in ``project_settings``, so that the image stays small.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

MARKER = "/etc/image-name"
NAME = "made for a test"
PYTHON = "/opt/venv/bin/python3"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = f"/usr/lib/{_VERSION}"
_PACKAGES = f"/opt/venv/lib/{_VERSION}/site-packages"


def make_image(folder: Path) -> Path:
    """Make the image and return its folder."""
    image = folder / "image"
    for name in ("dev", "proc", "sys", "tmp", "etc", "usr/bin", _LIBRARY[1:], "opt/venv/bin", _PACKAGES[1:]):
        (image / name).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (image / link).symlink_to("usr/bin" if link == "bin" else "usr/lib")
    for name in ("passwd", "group"):
        (image / "etc" / name).touch()
    (image / MARKER[1:]).write_text(NAME)
    interpreter = Path(sys.executable).resolve()
    programs = {"python3": interpreter, **{name: Path(str(shutil.which(name))) for name in ("env", "sh")}}
    for name, program in programs.items():
        shutil.copy(program, image / "usr/bin" / name)
    (image / PYTHON[1:]).symlink_to("/usr/bin/python3")
    (image / "opt/venv/pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for library in _linked([*programs.values(), *_extensions()]):
        shutil.copy(library, image / "usr/lib" / Path(library).name)
    return image


def project_settings(image: Path) -> str:
    """Return ``[tool.helpers]`` of a project whose jobs run in the image."""
    binds = [
        f"{sysconfig.get_path('stdlib')}:{_LIBRARY}:ro",
        f"{sysconfig.get_path('purelib')}:{_PACKAGES}:ro",
    ]
    return (
        f"[tool.helpers.defaults]\ncontainer = {json.dumps(str(image))}\n"
        f'container_engine = "charliecloud"\ncontainer_python = "{PYTHON}"\ncontainer_binds = {json.dumps(binds)}\n'
    )


def _extensions() -> list[Path]:
    torch = Path(sysconfig.get_path("purelib")) / "torch" / "lib"
    return [*Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so"), *torch.glob("libtorch_*.so*")]


def _linked(files: list[Path]) -> list[str]:
    """Return the system's libraries that these need, the loader too; by ``ldd``."""
    done = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False)
    words = {word for line in done.stdout.splitlines() for word in line.split() if line.startswith("\t")}
    own = sysconfig.get_path("purelib")
    return sorted(word for word in words if word.startswith("/") and not word.startswith(own) and os.path.exists(word))  # noqa: PTH110
