"""What the build takes from the user's machine: the MPI library, the compiler's flags and warnings. configure_test.py CMAKE CXX"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CMAKE, CXX = sys.argv[1:3]


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


class Configure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {k: v for k, v in os.environ.items() if k not in ("MPI_HOME", "CXXFLAGS", "CFLAGS", "CMAKE_CXX_FLAGS")}

    def cmake(self, *arguments, **environment):
        return subprocess.run([CMAKE, *arguments], capture_output=True, text=True, check=False,
                              env={**self.environment, **environment})


class Mpi(Configure):
    def setUp(self):
        super().setUp()
        self.system = os.path.join(self.folder, "system")
        self.module = os.path.join(self.folder, "module")

    def program(self, *names):
        for name in names:
            write(name, "#!/bin/sh\n", 0o755)

    def chosen(self, path, *definitions, **environment):
        """The compiler wrapper and the launcher that the build takes where PATH is this; system stands for /usr/bin."""
        script = os.path.join(self.folder, "choose.cmake")
        with open(os.path.join(ROOT, "cmake", "mpiq_mpi.cmake"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("set(mpiq_system_folders /usr/bin /bin)", text)
        text = text.replace("set(mpiq_system_folders /usr/bin /bin)", f"set(mpiq_system_folders {self.system})")
        write(script, "cmake_minimum_required(VERSION 3.25)\n" + text + '\nmessage(STATUS "took \\"${MPI_C_COMPILER}\\" \\"${MPIEXEC_EXECUTABLE}\\"")\n')
        done = self.cmake("-D", "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", *definitions, "-P", script, PATH=":".join(path), **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("took ")[1].replace(self.folder + "/", "") for line in done.stdout.splitlines() if "took " in line][0]

    def debian(self):
        self.program(*(os.path.join(self.system, name) for name in ("mpicc.mpich", "mpicc.openmpi", "mpicc", "mpiexec", "mpiexec.mpich",
                                                                    "mpiexec.openmpi")))

    def test_the_mpicc_of_a_module_is_taken_before_that_of_the_system(self):
        self.debian()
        self.program(self.module + "/mpicc", self.module + "/mpiexec")
        self.assertEqual(self.chosen([self.module, self.system]), '"module/mpicc" "module/mpiexec"')

    def test_a_link_to_one_of_the_systems_own_is_a_choice_too(self):
        self.debian()
        os.mkdir(self.module)
        os.symlink(self.system + "/mpicc.openmpi", self.module + "/mpicc")
        self.assertTrue(self.chosen([self.module, self.system]).startswith('"module/mpicc"'))

    def test_the_systems_plain_mpicc_may_be_any_so_mpich_comes_first(self):
        self.debian()
        self.program(self.module + "/other")
        self.assertEqual(self.chosen([self.module, self.system]), '"system/mpicc.mpich" "system/mpiexec.mpich"')

    def test_a_system_with_a_plain_mpicc_alone(self):
        self.program(self.system + "/mpicc", self.system + "/mpiexec")
        self.assertEqual(self.chosen([self.system]), '"system/mpicc" "system/mpiexec"')

    def test_what_the_user_names_is_taken(self):
        self.debian()
        self.program(self.module + "/mpicc", self.module + "/mpiexec")
        named = self.system + "/mpicc.openmpi"
        self.assertEqual(self.chosen([self.module, self.system], "-D", "MPI_C_COMPILER=" + named),
                         '"system/mpicc.openmpi" "system/mpiexec.openmpi"')
        # find_package(MPI) looks there.
        self.assertEqual(self.chosen([self.module, self.system], "-D", "MPI_HOME=/opt/mpi"), '"" ""')
        self.assertEqual(self.chosen([self.module, self.system], MPI_HOME="/opt/mpi"), '"" ""')


class Flags(Configure):
    def project(self, text):
        source = os.path.join(self.folder, "source")
        write(os.path.join(source, "CMakeLists.txt"),
              f'cmake_minimum_required(VERSION 3.25)\nproject(flags CXX)\nlist(APPEND CMAKE_MODULE_PATH "{ROOT}/cmake")\n' + text)
        # The unused variable is a warning.
        write(os.path.join(source, "main.cpp"), "int main() { int unused; return 0; }\n")
        return source

    def configure(self, source, *definitions, **environment):
        build = tempfile.mkdtemp(dir=self.folder)
        return build, self.cmake("-G", "Ninja", "-S", source, "-B", build, "-D", "CMAKE_CXX_COMPILER=" + CXX, *definitions, **environment)

    def test_flags_that_change_results_are_refused_with_one_error(self):
        source = self.project("include(mpiq_float)\n")
        for given in ("-ffast-math", "-Ofast", "-O2 -funsafe-math-optimizations -g", "-fno-fast-math -ffast-math",
                      "-ffinite-math-only -fno-fast-math", "-fsigned-zeros -fno-signed-zeros"):
            for how, environment in ((("-D", "CMAKE_CXX_FLAGS=" + given), {}), ((), {"CXXFLAGS": given}),
                                     (("-D", "CMAKE_BUILD_TYPE=Release", "-D", "CMAKE_CXX_FLAGS_RELEASE=" + given), {})):
                _, done = self.configure(source, *how, **environment)
                self.assertNotEqual(done.returncode, 0, given)
                self.assertEqual(done.stderr.count("CMake Error"), 1, done.stderr)
                self.assertIn("changes floating-point results", " ".join(done.stderr.split()))

    def test_a_compiler_that_does_so_without_a_flag_is_refused(self):
        wrapper = os.path.join(self.folder, "wrapper")
        write(wrapper, f'#!/bin/sh\nexec {CXX} "$@" -ffast-math\n', 0o755)
        _, done = self.configure(self.project("include(mpiq_float)\n"), "-D", "CMAKE_CXX_COMPILER=" + wrapper)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("without a flag changes floating-point results", " ".join(done.stderr.split()))

    def test_other_flags_are_taken_and_those_that_a_later_one_undoes(self):
        source = self.project("include(mpiq_float)\n")
        for given in ("-O3 -fno-math-errno -march=x86-64", "-ffast-math -fno-fast-math", "-fno-signed-zeros -O2 -fsigned-zeros",
                      "-fassociative-math -fno-associative-math"):
            _, done = self.configure(source, "-D", "CMAKE_CXX_FLAGS=" + given)
            self.assertEqual(done.returncode, 0, given + done.stderr)

    def test_what_one_language_undoes_counts_for_the_other(self):
        source = self.project("enable_language(C)\ninclude(mpiq_float)\n")
        _, done = self.configure(source, "-D", "CMAKE_C_FLAGS=-ffast-math", "-D", "CMAKE_CXX_FLAGS=-fno-fast-math")
        self.assertIn("-ffast-math changes floating-point results", " ".join(done.stderr.split()))

    def test_a_warning_ends_the_build_only_where_that_was_asked_for(self):
        source = self.project("include(mpiq_compile)\nadd_executable(main main.cpp)\nmpiq_compile(main)\n")
        for definitions, ends in (((), False), (("-D", "MPIQ_WERROR=ON"), True)):
            build, done = self.configure(source, *definitions)
            self.assertEqual(done.returncode, 0, done.stderr)
            built = self.cmake("--build", build)
            self.assertIn("unused", built.stdout + built.stderr)
            self.assertEqual(built.returncode != 0, ends, built.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
