"""Installs the MPI libraries of versions.txt in virtual environments, and builds the library with the core for the standard ABI.

wheels_up.py WORK CMAKE GENERATOR [LIBRARIES]: WORK gets a folder for each environment, and libraries.txt: the folder of the built libraries.
That is LIBRARIES, or the folder of a build in WORK with mpicc_abi of MPICH's wheel. 77 and one line if the wheels cannot be had.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77


def environments():
    """Name of the virtual environment -> its wheels, with versions."""
    with open(os.path.join(HERE, "versions.txt"), encoding="utf-8") as file:
        lines = [line.split(":") for line in file if not line.startswith("#")]
    return {name: wheels.split() for name, wheels in lines}


def installed(folder, wheels):
    """Makes the environment, unless it has these wheels already. If it cannot: the line for skipped tests, and what the command said."""
    mark = os.path.join(folder, "wheels")
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read().split() == wheels:
                return ""
    shutil.rmtree(folder, ignore_errors=True)
    pip = (f"{folder}/bin/pip", "install", "--quiet", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", *wheels)
    for command, needs in ((("/usr/bin/python3", "-m", "venv", folder), "python3-venv: scripts/setup check"),
                           (pip, f"{wheels[0]}: pip install {wheels[0]}")):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr + done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            return f"a test of programs with the MPI libraries of Python wheels needs {needs}\n{said[-1]}"
    with open(mark, "w", encoding="utf-8") as file:
        file.write(" ".join(wheels))
    return ""


def built(work, cmake, generator):
    """The folder of the libraries, with a core for each family."""
    build = os.path.join(work, "build")
    for command in ((cmake, "-S", ROOT, "-B", build, "-G", generator, "-D", "CMAKE_BUILD_TYPE=Release", "-D", "CMAKE_CXX_FLAGS_RELEASE=-O1",
                     "-D", "CMAKE_C_FLAGS_RELEASE=-O1", "-D", "MPIQ_SCALAR=ON", "-D", "MPIQ_CUDA=OFF", "-D", "MPIQ_BUILD_TESTS=OFF", "-D", "MPIQ_BUILD_BENCH=OFF",
                     "-D", f"MPIQ_ABI_MPI_C_COMPILER={work}/mpich/bin/mpicc_abi"),
                    (cmake, "--build", build, "--target", "mpi_quant_pmpi", "mpi_quant", "mpi_quant_abi")):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    return os.path.join(build, "lib")


def main(work, cmake, generator, libraries=""):
    note = os.path.join(work, "libraries.txt")
    if os.path.exists(note):
        os.remove(note)  # without it the other tests are skipped
    for name, wheels in environments().items():
        if said := installed(os.path.join(work, name), wheels):
            print(said)
            return SKIPPED
    libraries = libraries or built(work, cmake, generator)
    with open(note, "w", encoding="utf-8") as file:
        file.write(libraries)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
