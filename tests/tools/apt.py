"""Debian packages without being root: downloaded with apt, and unpacked into a folder."""

import subprocess

LIMIT = 300.0  # seconds for a command


def run(*command, cwd=None):
    """Run a command; what it says is printed if it fails."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Apt:
    """Downloads packages; with package lists of its own if those of the system do not do."""

    def __init__(self, folder):
        self.folder = folder
        self.options = ["-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"]
        self.options += ["-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"]
        self.has_own_lists = False

    def update(self):
        """Get package lists into the folder, from where the system has them from."""
        places = {
            "State": "state",
            "State::lists": "state/lists",
            "Cache": "cache",
            "Cache::archives": "cache/archives",
        }
        for name, place in places.items():
            (self.folder / place / "partial").mkdir(parents=True, exist_ok=True)
            self.options += ["-o", f"Dir::{name}={self.folder / place}"]
        self.options += ["-o", "Dir::State::status=/var/lib/dpkg/status"]
        run("apt-get", *self.options, "update")
        self.has_own_lists = True

    def _with_lists(self, work):
        """Do it; with lists of its own if the system has none, or old ones that name what is gone."""
        try:
            return work()
        except RuntimeError:
            if self.has_own_lists:
                raise
        self.update()
        return work()

    def download(self, packages, to):
        """Get packages and unpack them."""
        self._with_lists(
            lambda: run("apt-get", *self.options, "download", *packages, cwd=self.folder)
        )
        for file in self.folder.glob("*.deb"):
            run("dpkg", "-x", file, to)
            file.unlink()

    def lacking(self, packages):
        """The names of the packages and of all that they need, without what is installed."""
        ask = ["install", "--print-uris", "--yes", "--no-install-recommends"]
        said = self._with_lists(lambda: run("apt-get", *self.options, *ask, *packages))
        # 'uri' name_version_architecture.deb size checksum
        files = [line.split()[1] for line in said.splitlines() if line.startswith("'")]
        return sorted({file.partition("_")[0] for file in files})
