# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0

from benchpark.directives import variant
from benchpark.experiment import Experiment
from benchpark.mpi import MpiOnlyExperiment


class MpiQuant(Experiment, MpiOnlyExperiment):
    """mpiq-bench of mpi_quant on 2 nodes, each method as an experiment of its own. The application is in the folder ramble beside."""

    variant(
        "workload",
        default="allreduce",
        values=("allreduce", "reduce_scatter", "allgather", "bcast", "reduce"),
        multi=True,
        description="which collective",
    )

    def compute_applications_section(self):
        self.add_experiment_variable("n_nodes", 2, True)
        self.add_experiment_variable("n_ranks", "{n_nodes}*{sys_cores_per_node}", False)
        self.add_experiment_variable("method", ["mpi", "bf16", "int8"], True, True)
        self.add_experiment_variable("sizes", "64K,1M,16M", False)
        self.set_required_variables(n_resources="{n_ranks}", process_problem_size="{sizes}", total_problem_size="{sizes}")

    def compute_package_section(self):
        self.add_package_spec("default-mpi")
        self.add_package_spec(self.name, ["mpi-quant@0.2.0", "default-compiler"])
