"""The recipes of cmake/packaging/ against the tree: versions, options of CMake, programs and their options, paths, and that their formats can be
read. What the classes for Spack, Ramble and Benchpark import is replaced by stand-ins that keep what was declared.

Usage: packaging_test.py [BIN], BIN being the folder of the built programs. Needs no network.
"""
import ast
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from needs import needs
from packaging_files import FILES, PAGE, PLACE, VERSION, Declared, executed, modules, read
from scripts_common import ROOT, InTemporaryFolder, call

BIN = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
try:
    import yaml
except ImportError:
    yaml = None


def cmake_options():
    """The names of all options and cache variables of the build."""
    found = set()
    for path in ("CMakeLists.txt", "bench/CMakeLists.txt", *(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "cmake", "*.cmake")))):
        text = read(path)
        found |= set(re.findall(r"^\s*option\((MPIQ_\w+)", text, re.M)) | set(re.findall(r"^\s*set\((MPIQ_\w+) [^)]*CACHE", text, re.M))
    return found


class Recipes(unittest.TestCase):
    def test_there_is_one_of_each(self):
        folders = {os.path.relpath(path, PLACE).partition(os.sep)[0] for path in FILES}
        self.assertEqual(folders, {"reframe", "ramble", "benchpark", "spack", "easybuild", "conda", "module", "container"})
        for folder in folders - {"module"}:
            self.assertIn(f"cmake/packaging/{folder}", read("docs", "install.md"), "the page says how to use it")

    def test_every_version_is_that_of_the_project(self):
        """A number that follows the project's name, or a word for a version."""
        pattern = re.compile(r"(?:mpi_quant[-:@ ]|mpi-quant@|version[=(: ]+[\"']?)(\d+\.\d+\.\d+)(?![\d.])")
        for path in (*FILES, PAGE):
            for found in pattern.findall(read(path)):
                self.assertEqual(found, VERSION, path)
        for name in ("spack/spack_repo/mpi_quant/packages/mpi_quant/package.py", "easybuild/mpi_quant-0.2.0-gompi-2025b.eb", "conda/recipe.yaml",
                     "container/mpi_quant.def", "benchpark/experiments/mpi-quant/experiment.py"):
            self.assertTrue(pattern.search(read(PLACE, name)), name)
        self.assertEqual([os.path.basename(path).split("-")[1] for path in FILES if path.endswith(".eb")], [VERSION])

    def test_every_option_of_cmake_exists(self):
        known, used = cmake_options(), set()
        for path in (*FILES, PAGE):
            used |= {(name, path) for name in re.findall(r"\bMPIQ_[A-Z_]+\b", read(path))}
        self.assertGreater(len({name for name, _ in used}), 4)
        self.assertEqual({(name, path) for name, path in used if name not in known}, set())

    def test_packages_that_are_left_out_are_looked_for_and_not_required(self):
        tree = "".join(read(name) for name in ("CMakeLists.txt", "bench/CMakeLists.txt", "mpi_quant/CMakeLists.txt"))
        for path in FILES:
            for name in re.findall(r"CMAKE_DISABLE_FIND_PACKAGE_(\w+)", read(path)):
                self.assertTrue(re.search(rf"find_package\({name}\b(?![^)]*REQUIRED)", tree), (name, path))

    def test_sources_come_from_no_server(self):
        for path in FILES:
            self.assertEqual(re.findall(r"\b(?:https?|git|ssh|ftp)://\S+", read(path)), [], path)

    def test_every_licence_is_named(self):
        for path in FILES:
            if not path.endswith((".yaml", "CMakeLists.txt")):
                self.assertIn("SPDX-License-Identifier: Apache-2.0", read(path), path)

    def test_python_compiles(self):
        found = [path for path in FILES if path.endswith((".py", ".eb"))]
        self.assertGreaterEqual(len(found), 6)
        for path in found:
            tree = ast.parse(read(path), path)
            imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            self.assertEqual({name for name in imported - {"*"} if name.split(".")[0] not in used}, set(), f"{path} imports them and does not use them")


class Page(InTemporaryFolder):
    def test_blocks_that_run_here_run(self):
        blocks = re.findall(r"^```sh run\n(.*?)^```$", read(PAGE), re.S | re.M)
        self.assertTrue(blocks)
        if call("git", "-C", ROOT, "rev-parse", "HEAD").returncode:
            self.skipTest("the tree is no repository")
        for block in blocks:
            done = subprocess.run(["bash", "-euc", block.replace("git archive", f"git -C {shlex.quote(ROOT)} archive").replace("-o ", f"-o {self.path('')}/")],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), block)
        self.assertTrue(os.path.getsize(self.path(f"mpi_quant-{VERSION}.tar.gz")) > 10**5)


def help_of(*words):
    return call(os.path.join(BIN, words[0]), *words[1:], "--help").stdout


class Ramble(unittest.TestCase):
    def application(self):
        declared = Declared()
        names = ("tags", "software_spec", "required_package", "executable", "workload", "workload_variable", "figure_of_merit_context", "figure_of_merit",
                 "success_criteria")
        content = {**declared.directives(*names), "when": declared.when, "ExecutableApplication": type("ExecutableApplication", (), {})}
        with modules(ramble__appkit={**content, "__all__": list(content)}):
            made = executed("ramble", "applications", "mpi-quant", "application.py")["MpiQuant"]
        return made, declared.calls

    def test_workloads_are_subcommands_whose_options_exist(self):
        made, declared = self.application()
        self.assertEqual(made.name, "mpi-quant")
        names = [words[0] for words, _ in declared["workload"]]
        executables = dict(words for words, _ in declared["executable"])
        variables = {words[0] for words, _ in declared["workload_variable"]} | {"n_ranks"}
        for (name,), keywords in declared["workload"]:
            command = executables[keywords["executable"]]
            self.assertLessEqual(set(re.findall(r"\{(\w+)\}", command)), variables)
            program, subcommand, *rest = shlex.split(command)
            self.assertEqual((program, subcommand), ("mpiq-bench", name))
            if BIN:
                options = help_of(program, subcommand)
                for option in (word for word in rest if word.startswith("--")):
                    self.assertRegex(options, rf"(?<![\w-]){option}(?![\w-])")
        for _, keywords in declared["workload_variable"]:
            self.assertEqual(keywords["workloads"], names)

    @unittest.skipUnless(BIN, "mpiq-bench was not built")
    def test_its_figures_are_found_in_what_the_program_prints(self):
        _, declared = self.application()
        done = call(os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "64K,100K", "--methods", "bf16", "--format", "osu", "-n", "6")
        self.assertEqual(done.returncode, 0, done.stderr)
        values = {}
        for (name,), keywords in declared["figure_of_merit"]:
            values[name] = [match[keywords["group_name"]] for line in done.stdout.splitlines() if (match := re.search(keywords["fom_regex"], line))]
        self.assertEqual(values.pop("Version"), [VERSION])
        self.assertEqual({len(found) for found in values.values()}, {2})
        self.assertLessEqual(float(values["Min Latency"][0]), float(values["Max Latency"][0]))
        (context,) = (keywords["regex"] for _, keywords in declared["figure_of_merit_context"])
        self.assertEqual([match["bytes"] for line in done.stdout.splitlines() if (match := re.search(context, line))], ["65536", "102400"])
        (success,) = (keywords["match"] for _, keywords in declared["success_criteria"])
        self.assertEqual(sum(bool(re.search(success, line)) for line in done.stdout.splitlines()), 2)

    @needs("python3-yaml", yaml, "the test of Ramble's workspace")
    def test_the_workspace_uses_the_application(self):
        workspace = yaml.safe_load(read(PLACE, "ramble", "ramble.yaml"))["ramble"]
        _, declared = self.application()
        (workloads,) = (value["workloads"] for name, value in workspace["applications"].items() if name == "mpi-quant")
        self.assertLessEqual(set(workloads), {words[0] for words, _ in declared["workload"]})
        known = {words[0] for words, _ in declared["workload_variable"]}
        for workload in workloads.values():
            for experiment in workload["experiments"].values():
                self.assertLessEqual(set(experiment["variables"]), known)
                self.assertLessEqual(set(experiment["matrix"]), set(experiment["variables"]))
        self.assertEqual(yaml.safe_load(read(PLACE, "ramble", "repo.yaml")), {"repo": {"namespace": "mpi_quant"}})


class Benchpark(unittest.TestCase):
    def test_the_experiment_uses_the_application_and_the_package(self):
        declared, given, packages = Declared(), {}, {}

        class Experiment:
            name = "mpi-quant"

            def add_experiment_variable(self, name, values, named=False, matrixed=False):
                given[name] = values
                assert not (isinstance(values, list) and not matrixed)

            def set_required_variables(self, **values):
                given.update(values)

            def add_package_spec(self, name, spec=None):
                packages[name] = spec

        with modules(benchpark__directives=declared.directives("variant"), benchpark__experiment={"Experiment": Experiment},
                     benchpark__mpi={"MpiOnlyExperiment": type("MpiOnlyExperiment", (), {})}):
            made = executed("benchpark", "experiments", "mpi-quant", "experiment.py")["MpiQuant"]()
            made.compute_applications_section()
            made.compute_package_section()
        _, application = Ramble().application()
        variants = {words[0]: keywords for words, keywords in declared.calls["variant"]}
        self.assertEqual(list(variants["workload"]["values"]), [words[0] for words, _ in application["workload"]])
        for name in ("n_resources", "process_problem_size", "total_problem_size"):
            self.assertIn(name, given)
        self.assertLessEqual({"method", "sizes"}, {words[0] for words, _ in application["workload_variable"]} & set(given))
        self.assertEqual(packages["mpi-quant"][0], f"mpi-quant@{VERSION}")


class EasyBuild(unittest.TestCase):
    def test_what_the_recipe_says(self):
        recipe = {"SHLIB_EXT": "so"}
        exec(read(*[path for path in FILES if path.endswith(".eb")]), recipe)  # pylint: disable=exec-used
        self.assertEqual((recipe["easyblock"], recipe["version"], recipe["moduleclass"]), ("CMakeMake", VERSION, "lib"))
        self.assertEqual([source % {"version": VERSION} for source in recipe["sources"]], [f"mpi_quant-{VERSION}.tar.gz"])
        self.assertLessEqual({"-DMPIQ_BUILD_TESTS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_BLAS=ON"}, set(recipe["configopts"].split()))
        dependencies = {name for name, *_ in recipe["dependencies"]}
        self.assertEqual("PYTHONPATH" in recipe.get("modextrapaths", {}), "Python" in dependencies)
        self.assertEqual({"OpenBLAS", "FlexiBLAS"} & dependencies, set(), "mpiq-train is left out")
        for command in recipe["sanity_check_commands"]:
            program = os.path.join(BIN, shlex.split(command)[0])
            if BIN:
                done = call(program, *shlex.split(command)[1:])
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


@needs("python3-yaml", yaml, "the test of conda's recipe")
class Conda(unittest.TestCase):
    def test_what_the_recipe_says(self):
        recipe = yaml.safe_load(read(PLACE, "conda", "recipe.yaml"))
        self.assertEqual((recipe["schema_version"], recipe["context"]["version"], recipe["about"]["license"]), (1, VERSION, "Apache-2.0"))
        self.assertTrue(os.path.isfile(os.path.join(ROOT, recipe["about"]["license_file"])))
        self.assertEqual(os.path.realpath(os.path.join(PLACE, "conda", recipe["source"]["path"])), os.path.realpath(ROOT))
        self.assertTrue(os.access(os.path.join(PLACE, "conda", recipe["build"]["script"]), os.X_OK))
        self.assertEqual(yaml.safe_load(read(PLACE, "conda", "variants.yaml")), {"mpi": ["mpich", "openmpi"]})
        self.assertIn(" -D CMAKE_DISABLE_FIND_PACKAGE_BLAS=ON", read(PLACE, "conda", "build.sh"))
        needed = set(re.findall(r'"(\w+)>=[\d.]+"', re.search(r"^dependencies = (.*)$", read("pyproject.toml"), re.M)[1]))
        self.assertLessEqual(needed, {line.split()[0] for line in recipe["requirements"]["run"]})


class Containers(unittest.TestCase):
    def test_packages_groups_and_presets_exist(self):
        groups = set(re.findall(r"# (\w+):", read("scripts", "packages.txt")))
        presets = set(re.findall(r'"name": "(\w+)"', read("CMakePresets.json")))
        for name in ("Dockerfile", "mpi_quant.def"):
            text = read(PLACE, "container", name)
            for words in re.findall(r"scripts/setup ([\w ]+)", text):
                self.assertLessEqual(set(words.split()), groups)
            self.assertLessEqual(set(re.findall(r"--preset (\w+)", text)), presets)
            self.assertIn("--prefix /opt/mpi_quant", text)

    def test_the_images_have_a_compiler_and_what_mpiq_needs(self):
        """By name: what a package brings with it may change."""
        groups = re.findall(r"^(\S+)\s*# (\w+):", read("scripts", "packages.txt"), re.M)
        image = read(PLACE, "container", "mpi_quant.def")
        asked = re.search(r"scripts/setup ([\w ]+)", image)[1].split()
        there = {package for package, group in groups if group in asked}
        self.assertLessEqual({"g++", "libmpich-dev", "mpich", "pkg-config", "python3", "python3-h5py", "python3-matplotlib"}, there)
        last = read(PLACE, "container", "Dockerfile").partition("FROM debian:12-slim\n")[2]
        self.assertLessEqual({"gcc", "libc6-dev", "libmpich-dev", "mpich", "pkg-config", "python3", "python3-h5py", "python3-matplotlib"}, set(last.split()))
        for text in (image, last):
            self.assertIn("mpiq --version", text)
            self.assertNotIn("python3-mpi4py", text, "it is for Open MPI")

    def test_the_image_has_the_libraries_of_the_programs(self):
        """Debian's packages of libraries, as the programs of this build need them, if this is Debian 12 with MPICH."""
        programs = [path for path in (os.path.join(BIN, name) for name in ("mpiq-bench", "mpiq-kernels", "mpiq-train")) if BIN and os.path.exists(path)]
        release = read("/etc/os-release") if os.path.exists("/etc/os-release") else ""
        if not programs or "VERSION_ID=\"12\"" not in release:
            self.skipTest("no programs, or no Debian 12")
        lines = [re.search(r"NEEDED\s+(\S+)", line) for path in programs for line in call("objdump", "-p", path).stdout.splitlines()]
        found = {match[1] for match in lines if match}
        if not any(name.startswith("libmpich.") for name in found):
            self.skipTest("the build is not for MPICH")
        image = read(PLACE, "container", "Dockerfile").partition("FROM debian:12-slim\n")[2]
        for name in sorted(found):
            path = next(iter(glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/usr/lib/{name}")), None)
            if path is None or re.match(r"lib(c|m|gcc_s|stdc\+\+|gomp)\.|libmpi_quant|ld-", name):
                continue
            owners = call("dpkg-query", "-S", f"*/{name}").stdout
            packages = {line.partition(":")[0] for line in owners.splitlines()}
            if packages:
                asked = [*image.split(), "libmpich12"]  # libopenblas0 brings libopenblas0-pthread
                self.assertTrue(any(package == word or package.startswith(word + "-") for package in packages for word in asked), (name, packages))


class ModuleFile(InTemporaryFolder):
    SCRIPT = """proc module-whatis {text} {puts "whatis $text"}
proc conflict {name} {puts "conflict $name"}
proc setenv {name value} {puts "setenv $name $value"}
proc prepend-path {name value} {puts "prepend $name $value"}
set ModulesCurrentModulefile [lindex $argv 0]
source [lindex $argv 0]
"""

    @needs("tcl", shutil.which("tclsh"), "the test of the module file")
    def test_it_finds_the_installed_folder_from_its_own_place(self):
        values = {"PROJECT_VERSION": VERSION, "CMAKE_INSTALL_BINDIR": "bin", "CMAKE_INSTALL_LIBDIR": "lib", "CMAKE_INSTALL_INCLUDEDIR": "include",
                  "CMAKE_INSTALL_MANDIR": "share/man"}
        text = re.sub(r"@(\w+)@", lambda match: values[match[1]], read(PLACE, "module", "mpi_quant.in"))
        self.assertTrue(text.startswith("#%Module"))
        place = self.path(f"moved/share/mpi_quant/modulefiles/mpi_quant/{VERSION}")
        os.makedirs(os.path.dirname(place))
        for path, content in ((place, text), (self.path("run.tcl"), self.SCRIPT)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        done = call("tclsh", self.path("run.tcl"), place)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        moved = os.path.realpath(self.path("moved"))
        said = {tuple(line.split(" ", 2)[:2]): line.split(" ", 2)[-1] for line in done.stdout.splitlines()}
        self.assertEqual(said["setenv", "MPI_QUANT_HOME"], moved)
        for name, folder in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib"), ("PKG_CONFIG_PATH", "lib/pkgconfig"), ("CPATH", "include"), ("PYTHONPATH", "share/mpi_quant/python")):
            self.assertEqual(said["prepend", name], os.path.join(moved, folder))
        self.assertIn("DESTINATION share/mpi_quant/modulefiles/mpi_quant RENAME ${PROJECT_VERSION}", read(PLACE, "module", "CMakeLists.txt"))


if __name__ == "__main__":
    unittest.main()
