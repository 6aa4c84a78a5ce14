# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0

import os
import re

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage


class MpiQuant(CMakePackage, CudaPackage):
    """MPI_Allreduce and other collectives of float vectors with a fraction of the bytes: a library, a preload library for programs that stay
    as they are, and the benchmark that measures when it pays."""

    # The archive lies in the folder in which `spack install` is started. docs/install.md says how it is made.
    manual_download = True
    url = f"file://{os.getcwd()}/mpi_quant-0.2.0.tar.gz"
    license("Apache-2.0", checked_by="mpi_quant")

    version("0.2.0")

    variant("bench", default=True, description="mpiq-bench and the other programs that measure")
    variant("train", default=False, when="+bench", description="mpiq-train, which needs a BLAS")
    variant("papi", default=False, when="+bench", description="events of the processor in calls (mpiq-bench --counters)")
    variant("hdf5", default=True, description="residuals in files; needed by +bench")
    variant("python", default=False, description="what the installed command mpiq and the Python package need")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3.1:")
    depends_on("cli11")  # mpiq-run
    depends_on("fmt")
    depends_on("hdf5+hl", when="+bench")
    depends_on("hdf5", when="+hdf5")
    depends_on("zlib-api", when="+bench")
    depends_on("nlohmann-json", when="+bench")
    depends_on("benchmark", when="+bench")
    depends_on("openblas", when="+train")
    depends_on("papi", when="+papi")
    with when("+python"):
        depends_on("python@3.11:", type="run")
        depends_on("py-numpy@1.24:", type="run")
        depends_on("py-mpi4py@3.1.4:", type="run")
        depends_on("py-h5py", type="run")
        depends_on("py-matplotlib", type="run")

    conflicts("~hdf5", when="+bench", msg="mpiq-bench writes HDF5")
    conflicts("cuda_arch=none", when="+cuda", msg="+cuda needs the compute capabilities that get code of their own, such as cuda_arch=90")
    conflicts("%gcc@:11", msg="C++20 needs GCC 12")

    def cmake_args(self):
        args = [
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),  # test_program looks there
            self.define("MPIQ_BUILD_TESTS", False),
            self.define_from_variant("MPIQ_BUILD_BENCH", "bench"),
            self.define("MPIQ_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("MPIQ_NCCL", "OFF"),
            self.define_from_variant("MPIQ_PAPI", "papi"),
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define_from_variant("MPIQ_CUDA_ARCHITECTURES", "cuda_arch"))
        if self.spec.satisfies("~hdf5"):
            args.append(self.define("CMAKE_DISABLE_FIND_PACKAGE_HDF5", True))
        if not self.spec.satisfies("+train"):  # else a BLAS of the system is found, and mpiq-train is built
            args.append(self.define("CMAKE_DISABLE_FIND_PACKAGE_BLAS", True))
        return args

    # Stand-alone tests (spack test run mpi-quant). None needs a batch system or more than one rank.
    def test_policy(self):
        """mpiq-run reads a policy"""
        out = Executable(self.prefix.bin.join("mpiq-run"))("--check-policy", "--policy", "64K-: bf16", output=str.split, error=str.split)
        check_outputs("bf16", out)

    def test_sum(self):
        """mpiq-bench sums on one rank, and checks the results"""
        if self.spec.satisfies("~bench"):
            raise SkipTest("there is no mpiq-bench: ~bench")
        out = Executable(self.prefix.bin.join("mpiq-bench"))("allreduce", "--sizes", "64K", "--methods", "mpi,bf16", "-n", "6", "--format", "csv",
                                                             output=str.split, error=str.split)
        check_outputs([r"allreduce,.*bf16", ",ok,"], out)

    def test_program(self):
        """a program links the library and runs"""
        with open("sum.c", "w", encoding="utf-8") as file:
            file.write("#include <mpi_quant.h>\n#include <stdio.h>\nint main(void) {\n  int major, minor, patch;\n"
                       "  MPIQ_Get_version(&major, &minor, &patch);\n  printf(\"%d.%d.%d\\n\", major, minor, patch);\n  return 0;\n}\n")
        # pkg-config itself is there only while the package is built. Its file names the family of the MPI
        # library: mpich, openmpi or abi.
        with open(join_path(self.prefix.lib, "pkgconfig", "mpi_quant.pc"), encoding="utf-8") as file:
            family = re.search(r"^Requires: mpi_quant-(\w+)$", file.read(), re.M).group(1)
        Executable(self.spec["mpi"].mpicc)("sum.c", "-o", "sum", f"-I{self.prefix.include}", f"-L{self.prefix.lib}", f"-lmpi_quant_{family}",
                                           f"-Wl,-rpath,{self.prefix.lib}")
        check_outputs(str(self.version), Executable("./sum")(output=str.split, error=str.split))
