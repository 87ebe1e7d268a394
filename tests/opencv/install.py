"""Finds OpenCV for the node that is compiled with it, or gets Debian's without being root.

    python install.py FOLDER

FOLDER/flags then has what the compiler needs, which takes it as @FOLDER/flags. Only what works is
written there: a program is built and run with it. OpenCV of the system comes first. Else its packages and those of
the libraries that they lack here are downloaded with apt, 10 MB, and unpacked into the folder.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from apt import LIMIT, Apt, run  # noqa: E402

# Their links say which version of the libraries there is.
DEVELOPMENT = ["libopencv-core-dev", "libopencv-imgproc-dev"]
# Also if they stand before what needs them.
LIBRARIES = ["-Wl,--no-as-needed", "-lopencv_imgproc", "-lopencv_core"]
# A package is called as its library, but for these.
PACKAGES = {"libz.so.1": "zlib1g", "libGLdispatch.so.0": "libglvnd0"}
PROBE = """#include <opencv2/imgproc.hpp>
int main() {
    cv::Mat one(4, 4, CV_8UC3, cv::Scalar(1, 2, 3)), other;
    cv::resize(one, other, cv::Size(2, 2));
    return other.at<cv::Vec3b>(1, 1) == cv::Vec3b(1, 2, 3) ? 0 : 1;
}
"""


def try_out(flags):
    """Build and run a program with the flags; raises if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.cpp"), Path(folder, "probe")
        source.write_text(PROBE)
        run("c++", "-std=c++14", source, "-o", program, *flags)
        run(program)


def of_the_system():
    """The flags for the OpenCV that is installed, or None."""
    candidates = [["-I/usr/include/opencv4", *LIBRARIES]]
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--cflags", "--libs-only-L", "opencv4"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT)
        if said.returncode == 0:
            candidates.insert(0, [*said.stdout.split(), *LIBRARIES])
    for flags in candidates:
        try:
            try_out(flags)
        except (RuntimeError, OSError):
            continue
        return flags
    return None


def package_of(library):
    """libopencv_core.so.406 -> libopencv-core406, libX11.so.6 -> libx11-6."""
    if library in PACKAGES:
        return PACKAGES[library]
    name, _, version = library.partition(".so.")
    dash = "-" if name[-1].isdigit() else ""
    return f"{name.lower().replace('_', '-')}{dash}{version}"


def keep(unpacked, folder):
    """Move headers and shared libraries of unpacked packages to their places."""
    headers = unpacked / "usr/include/opencv4"
    if headers.exists():
        shutil.copytree(headers, folder / "include", dirs_exist_ok=True)
    for file in unpacked.rglob("*.so*"):
        target = folder / "lib" / file.name
        if file.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(Path(os.readlink(file)).name)
        elif file.is_file():
            shutil.copy(file, target)


def lacking(folder):
    """The libraries that those in the folder need and that are neither there nor installed."""
    wanted = set()
    for file in (folder / "lib").iterdir():
        if not file.exists():
            wanted.add(os.readlink(file))
            continue
        environment = os.environ | {"LD_LIBRARY_PATH": str(folder / "lib"), "LC_ALL": "C"}
        said = subprocess.run(
            ["ldd", file], env=environment, capture_output=True, text=True, timeout=LIMIT
        )
        wanted.update(re.findall(r"^\s*(\S+) => not found", said.stdout, re.MULTILINE))
    return sorted(wanted)


def from_packages(folder):
    """Download and unpack into the folder; the flags for it."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise RuntimeError("there is no apt to get it with")
    (folder / "lib").mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        apt = Apt(Path(work))
        packages, tried = list(DEVELOPMENT), set()
        while packages:
            unpacked = Path(work, "unpacked")
            apt.download(packages, unpacked)
            keep(unpacked, folder)
            shutil.rmtree(unpacked)
            tried.update(packages)
            packages = sorted({package_of(library) for library in lacking(folder)} - tried)
    flags = [f"-isystem{folder / 'include'}", f"-L{folder / 'lib'}", *LIBRARIES]
    # An rpath that libraries of the folder have for each other, too.
    return [*flags, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{folder / 'lib'}"]


def main(folder):
    """Write FOLDER/flags."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flags = of_the_system()
    try:
        if flags is None:
            flags = from_packages(folder)
            try_out(flags)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"OpenCV is not installed, and cannot be installed: {error}")
    lines = [re.sub(r"([\\\s'\"])", r"\\\1", flag) for flag in flags]
    (folder / "flags").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
