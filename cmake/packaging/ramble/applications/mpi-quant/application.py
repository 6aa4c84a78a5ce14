# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0

from ramble.appkit import *


class MpiQuant(ExecutableApplication):
    """mpiq-bench of mpi_quant: collectives of float vectors, by MPI's own function or compressed. An experiment measures one method, because
    the text of a size does not name the method. Speed-ups over MPI are ratios to experiments with method mpi; for pairs that are measured in turns,
    and for intervals, read the result file (--output) with mpiq."""

    name = "mpi-quant"
    tags("synthetic-benchmarks", "network-collectives", "mpi")

    with when("package_manager_family=spack"):
        software_spec("mpi-quant", pkg_spec="mpi-quant")
        required_package("mpi-quant")

    collectives = ["allreduce", "reduce_scatter", "allgather", "bcast", "reduce"]
    for collective in collectives:
        executable(
            f"measure-{collective}",
            f"mpiq-bench {collective} --sizes {{sizes}} --methods '{{method}}' --expect-ranks {{n_ranks}} --format osu {{additional_args}}",
            use_mpi=True,
        )
        workload(collective, executable=f"measure-{collective}")

    workload_variable("sizes", default="64K,1M,16M", description="bytes of the vector; K, M, G are 2^10, 2^20, 2^30", workloads=collectives)
    workload_variable("method", default="bf16", description="one method, as mpiq-bench --list names them; mpi is MPI's own", workloads=collectives)
    workload_variable("additional_args", default="", description="more options of mpiq-bench", workloads=collectives)

    row = r"^(?P<bytes>\d+) +(?P<average>[\d.]+) +(?P<least>[\d.]+) +(?P<greatest>[\d.]+) +(?P<repetitions>\d+)$"
    figure_of_merit_context("bytes", regex=row, output_format="Message Size: {bytes}")
    for group, merit, unit in (
        ("average", "Latency", "us"),
        ("least", "Min Latency", "us"),
        ("greatest", "Max Latency", "us"),
        ("repetitions", "Iterations", ""),
    ):
        figure_of_merit(merit, fom_regex=row, group_name=group, units=unit, contexts=["bytes"])
    figure_of_merit("Version", fom_regex=r"Latency Test, mpiq-bench (?P<version>\S+), method", group_name="version", units="")
    # A row that is no timing is a comment, so there is no success without a row.
    success_criteria("has-rows", mode="string", match=r"^\d+ +[\d.]+ +[\d.]+ +[\d.]+ +\d+$", file="{log_file}")
