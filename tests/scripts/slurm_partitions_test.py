"""Tests of what slurm/submit says of partitions, with made-up commands of Slurm.

Needs neither Slurm nor MPI nor a build: /usr/bin/python3 tests/scripts/slurm_partitions_test.py
"""
import os
import unittest
import unittest.mock

from slurm_fakes import WithFakes

from mpi_quant.slurm import partitions

# As scontrol and sinfo of Slurm 22.05 write them.
STANDARD = ("PartitionName=standard AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxNodes=64 MaxTime=1-00:00:00 MinNodes=0 "
            "State=UP TotalNodes=120\n")
BIG = "PartitionName=big AllowAccounts=me,you AllowQos=long Default=NO MaxNodes=UNLIMITED MaxTime=00:30:00 MinNodes=4 State=DOWN TotalNodes=8\n"
STANDARD_NODES = "80|2|64|2|257000|(null)|idle|milan,ib\n30|2|64|2|257000|(null)|allocated|milan,ib\n10|2|64|2|257000|(null)|down*|milan,ib\n"
GPU_NODES = "6|1|32|1|512000+|gpu:a100:3(S:0),gpu:h100:1|mixed-|(null)\n2|1|16|1|128000|(null)|drained|(null)\n"


class Gpus(unittest.TestCase):
    def test_types_that_begin_with_a_digit_are_no_numbers(self):
        for gres, gpus in (("gpu:4", 4), ("gpu:4090:8", 8), ("gpu:2080ti:4(S:0-1)", 4), ("gpu:1g.10gb:7,shard:64", 7), ("shard:8,gpu:a100:3(S:0),gpu:h100:1", 4),
                           ("(null)", 0), ("craynetwork:4", 0)):
            self.assertEqual(partitions.nodes_of(f"6|1|32|1|512000|{gres}|idle|(null)").gpus, gpus, gres)


class Said(WithFakes):
    def setUp(self):
        super().setUp()
        self.file("partitions", STANDARD + BIG)
        self.file("nodes.standard", STANDARD_NODES)
        self.file("nodes.big", GPU_NODES)

    def plan(self, *words):
        done = self.submit("--dry-run", "--time", "20", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def warnings(self, *words):
        return [line.removeprefix("warning: partition ") for line in self.plan(*words).splitlines() if line.startswith("warning: ")]

    def test_the_plan_says_what_slurm_says_of_the_default_partition(self):
        plan = self.plan()
        self.assertTrue(plan.endswith("Slurm says of partition standard: up, nodes: 120 (30 allocated, 10 down, 80 idle)\n"
                                      "  nodes: 120, each with 128 cores, 2 threads a core, 257000 MB, features milan,ib\n"
                                      "  a job: 1 to 64 nodes, at most 1-00:00:00\n"), plan)
        self.assertEqual(self.warnings(), [])
        self.assertEqual(self.calls("sbatch"), [])

    def test_nodes_of_several_kinds_and_gpus(self):
        self.assertIn("Slurm says of partition big: down, nodes: 8 (2 drained, 6 mixed)\n"
                      "  nodes: 2, each with 16 cores, 128000 MB\n  nodes: 6, each with 32 cores, 512000 MB, 4 GPUs\n"
                      "  a job: 4 to unlimited nodes, at most 00:30:00\n", self.plan("--partition", "big"))

    def told(self, nodes=2, cores=1, gpus=0, seconds=1200, constraint=""):
        """The warnings about cells, without a process for each."""
        with unittest.mock.patch.dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"]):
            (partition,) = partitions.read("")
        return list(partitions.warnings(partition, partitions.Wish("cells", nodes, cores, gpus, seconds, constraint, "", "")))

    def test_what_the_partition_cannot_give_is_a_warning(self):
        for expected, wish in ((["cells: nodes of 200 cores asked for: 2; there are 0"], {"cores": 200}), ([], {"cores": 128, "seconds": 86400}),
                               (["cells: 1500 minutes asked for, and a job gets at most 1-00:00:00 (MaxTime)"], {"seconds": 90000}),
                               (["cells: nodes with 2 GPUs (GRES) asked for: 64; there are 0"], {"nodes": 64, "gpus": 2}),
                               (["cells: nodes with the feature hdr asked for: 2; there are 0"], {"constraint": "ib&hdr"}),
                               ([], {"constraint": "ib&milan"}), ([], {"constraint": "[rack1|rack2]"})):
            self.assertEqual(self.told(**wish), expected, wish)
        self.file("partitions", STANDARD.replace("MaxNodes=64", "MaxNodes=2"))
        self.assertEqual(self.told(nodes=4), ["cells: 4 nodes asked for, and a job gets at most 2 (MaxNodes)"])
        self.file("nodes.standard", STANDARD_NODES.replace("80", "1").replace("30|", "0|").replace("|idle", "|idle~"))
        self.assertEqual((self.told(nodes=1), self.told()), ([], ["cells: nodes that start jobs asked for: 2; there are 1"]))

    def test_cells_ask_for_the_cores_of_all_ranks_of_a_node(self):
        self.assertEqual(self.warnings("--nodes", "1,2", "--ranks-per-node", "2,65", "--cpus-per-task", "2"),
                         [f"standard: cells on {nodes} nodes: nodes of 130 cores asked for: {nodes}; there are 0" for nodes in (1, 2)])

    def test_a_site_is_checked_against_both_of_its_partitions(self):
        site = self.file("site.sh", "partition=standard\nsmall_partition=big\naccount=they\nqos=long\n")
        self.assertEqual(self.warnings("--site", site), [
            "big: it is down, and jobs in it wait", "big: the job after the cells: 1 node asked for, and a job gets at least 4 (MinNodes)",
            "big: the job after the cells: account they asked for, and allowed are me,you (AllowAccounts)"])

    def test_where_slurm_says_nothing_there_is_no_warning(self):
        self.file("partitions", "slurm_load_partitions error: Default=YES\n" + STANDARD.replace("YES", "NO"))
        self.assertIn("Slurm says nothing of a default partition\n", self.plan())
        self.file("nodes.standard", "slurm_load_partitions: Unable to contact slurm controller\n")
        said = self.plan("--partition", "standard")
        self.assertIn("Slurm says of partition standard: up, nodes: 0\n  a job: ", said)
        self.assertNotIn("warning", said)

    def test_lines_that_are_no_nodes(self):
        for row in ("", "x", "1|2|3", "1|2|3|4|5|6|7", "a|2|3|4|5|(null)|idle|", "|||||||"):
            self.assertIsNone(partitions.nodes_of(row), row)


if __name__ == "__main__":
    unittest.main()
