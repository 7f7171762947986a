"""Create .venv and install the locked dependencies and harmix itself into it; do nothing if that is done.

`make` runs this before every target; by hand: `python3 tools/bootstrap.py`. It uses the standard library
only, because nothing is installed yet, and no syntax newer than Python 3.7, so that an old python3 reaches
the message that says what to do. Pip runs with the user's own configuration (mirrors, proxies, certificates).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
# Written last, so that an interrupted step has no stamp and is done again.
DEPENDENCIES_STAMP = VENV / "dependencies.json"
PACKAGE_STAMP = VENV / "package.json"


def main() -> None:
    # Another project's modules must not look installed here.
    os.environ.pop("PYTHONPATH", None)
    os.environ.pop("PYTHONHOME", None)
    started = time.monotonic()
    changed = False
    if not dependencies_are_current():
        build_environment(choose_python())
        changed = True
    if not package_is_current():
        install_package()
        changed = True
    if changed:
        say(f"ready ({time.monotonic() - started:.0f} s)")


def dependencies_are_current() -> bool:
    """The lock, the place, and the interpreter are those of the stamp, and nothing it lists has gone."""
    try:
        stamp = json.loads(DEPENDENCIES_STAMP.read_text())
        same = stamp["identity"] == identity() and set(stamp["installed"]) <= installed()
    except (OSError, ValueError, LookupError, TypeError):
        return False
    asked = os.environ.get("PYTHON")
    return same and PYTHON.exists() and (not asked or same_version(asked))


def identity() -> dict[str, str]:
    return {
        "lock": digest(LOCK),
        "place": str(VENV),  # scripts and the editable install hold absolute paths: a moved copy is rebuilt
        "python": os.path.realpath(PYTHON),  # the system's python3 may have become another version since
    }


def installed() -> set[str]:
    return {path.name for path in VENV.glob("lib/python3.*/site-packages/*")}


def same_version(asked: str) -> bool:
    return probe(asked)[1][:2] == probe(str(PYTHON))[1][:2]


def package_is_current() -> bool:
    try:
        return PACKAGE_STAMP.read_text() == digest(PROJECT) and (VENV / "bin" / "harmix").exists()
    except OSError:
        return False


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def choose_python() -> str:
    """The interpreter to build on: $PYTHON, else the one running this, else a newer one on PATH."""
    asked = os.environ.get("PYTHON")
    if asked:
        python, version = probe(asked)
        if version < OLDEST:
            stop(f"PYTHON={asked} is not a Python {dotted(OLDEST)} or newer")
        return python
    for name in (sys.executable, "python3.13", "python3.12", "python3.11"):
        python, version = probe(name)
        if version >= OLDEST:
            return python
    stop(
        f"needs Python {dotted(OLDEST)} or newer; python3 is {dotted(sys.version_info[:3])}, and PATH has no "
        "newer one: install one and run make again, or name it: make demo PYTHON=/path/to/python3.12"
    )


def probe(name: str) -> tuple[str, tuple[int, ...]]:
    """Path and version of an interpreter, by running it: version managers' shims may be on PATH and fail."""
    # Inside a virtual environment (perhaps .venv itself) the base interpreter is the one to build on.
    path = "getattr(sys, '_base_executable', sys.executable)"
    answer = run(name, "-c", f"import sys; print({path}, *sys.version_info[:3], sep='\\n')")
    if answer.returncode != 0:
        return name, ()
    path, *version = answer.stdout.splitlines()
    return path, tuple(map(int, version))


def build_environment(python: str) -> None:
    version = dotted(probe(python)[1])
    say(f"{'rebuilding' if VENV.exists() else 'creating'} .venv (Python {version})")
    create_venv(python)
    count = sum("==" in line for line in LOCK.read_text().splitlines())
    say(f"installing {count} pinned packages; the first time this takes a minute or two")
    # Wheels only: a source build would use unpinned build tools, or a compiler that is not there.
    pip_install("--require-hashes", "--only-binary=:all:", "-r", str(LOCK))
    stamp = {"identity": identity(), "installed": sorted(installed())}
    DEPENDENCIES_STAMP.write_text(json.dumps(stamp, indent=1))


def create_venv(python: str) -> None:
    """Debian and Ubuntu ship a python3 that cannot make a complete environment: try what may be at hand."""
    if try_venv(python, "-m", "venv", VENV):
        return
    if run(python, "-m", "pip", "--version").returncode == 0 and try_venv(python, "-m", "venv", "--without-pip", VENV):
        return
    if try_venv("uv", "venv", "--quiet", "--seed", "--python", python, VENV):
        return
    if try_venv("virtualenv", "--quiet", "--python", python, VENV):
        return
    package = f"python{dotted(probe(python)[1][:2])}-venv"
    if not (python.startswith("/usr/bin/") and shutil.which("apt-get")):
        stop(f"{python} has neither ensurepip nor pip: install virtualenv (or uv), then run make again")
    if apt_install(package) and try_venv(python, "-m", "venv", VENV):
        return
    command = f"apt-get install -y {package}"
    command = f"sudo {command}" if shutil.which("sudo") else f"su -c '{command}'"
    stop(f"this Python cannot make environments; type: {command}   and then run make again")


def try_venv(*command: object) -> bool:
    """Run a command that makes .venv; true if it leaves one that pip can install into."""
    try:
        if VENV.is_symlink():
            VENV.unlink()
        elif VENV.exists():
            shutil.rmtree(VENV)
    except OSError as error:
        stop(f"cannot replace .venv ({error}): remove it, then run make again")
    return run(*command).returncode == 0 and run(*pip(), "--version").returncode == 0


def apt_install(package: str) -> bool:
    """Install a Debian package if that needs no password."""
    root = os.geteuid() == 0
    if not root and run("sudo", "-n", "true").returncode != 0:
        return False
    say(f"this Python cannot make environments: installing {package} with apt-get")
    apt = [*([] if root else ["sudo", "-n"]), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    if run(*apt, "install", "-y", package).returncode == 0:
        return True
    run(*apt, "update")  # a new machine has no package lists yet
    answer = run(*apt, "install", "-y", package)
    if answer.returncode != 0:
        print(answer.stderr, file=sys.stderr, end="")
    return answer.returncode == 0


def install_package() -> None:
    pip_install("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    PACKAGE_STAMP.write_text(digest(PROJECT))


def pip() -> list[str]:
    """The environment's own pip; where it has none, the pip of the Python it is built on."""
    if any(VENV.glob("lib/python3.*/site-packages/pip")):
        return [str(PYTHON), "-m", "pip"]
    return [os.path.realpath(PYTHON), "-m", "pip", "--python", str(PYTHON)]


def pip_install(*arguments: str) -> None:
    # -qq: errors only. --no-user: `user = true` in a pip configuration is an error inside an environment.
    options = ["-qq", "--no-input", "--disable-pip-version-check", "--no-user"]
    if subprocess.run([*pip(), "install", *options, *arguments], check=False).returncode != 0:
        stop("pip could not install (its message is above); mend that and run make again")


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Run quietly; a program that does not exist is one that fails."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def say(line: str) -> None:
    print(f"harmix: {line}", flush=True)


def stop(line: str) -> NoReturn:
    sys.exit(f"harmix: {line}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nharmix: interrupted; run make again to go on")
