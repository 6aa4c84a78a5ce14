"""Settings of ReFrame for this machine alone: no batch system, ranks by mpiexec. A site has settings of its own."""
# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0

site_configuration = {
    "systems": [{
        "name": "here", "descr": "this machine", "hostnames": [".*"],
        "partitions": [{"name": "local", "descr": "without a batch system", "scheduler": "local", "launcher": "mpiexec", "environs": ["builtin"]}],
    }],
    "environments": [{"name": "builtin"}],
}
