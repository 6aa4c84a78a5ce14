"""The request for a run, which slurm/submit makes from its command line."""
import os
import re
import time

import mpiq_batch as batch
import mpiq_experiments as experiments
import mpiq_folder as folders
import mpiq_plan as planning
import mpiq_site as sites

SLURM = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
ROOT = os.path.dirname(SLURM)
PROGRAMS = {"bench": "mpiq-bench", "kernels": "mpiq-kernels", "train": "mpiq-train", "dropin": "mpiq-run"}
PROBLEMS = (planning.PlanError, sites.SiteError, folders.FolderError, experiments.ExperimentError)


class Request:
    """A run before it is submitted: what the command line, the site and the programs say about it."""

    def __init__(self, options):
        self.options = options
        self.experiment = experiments.ALL[options.experiment]
        self.site_path = sites.find(options.site or os.environ.get("MPIQ_SITE", ""), SLURM)
        self.site = sites.read(self.site_path)
        self.sweep = experiments.sweep_of(self.experiment, options, ROOT)
        self.bin = os.path.abspath(options.bin)
        self.words = experiments.program_words(options.experiment, options.extra)
        defaults = (*self.experiment.options, *(self.experiment.quick_options if options.quick else ()))
        self.words = experiments.with_defaults(defaults, self.words)
        self.gpus = self.experiment.gpus if options.gpus is None else options.gpus
        self.launches = options.launches or (1 if options.quick or not self.sweep else self.sweep.launches)
        self.varied = experiments.varied(options.experiment, self.sweep, options)
        self.cells = self.plan_cells()
        self.arrays = planning.arrays(self.cells)
        self.slurm = self.ask_slurm()
        cluster = re.sub(r"[^\w.-]", "", self.slurm.get("ClusterName", "cluster"), flags=re.A)
        self.link = "slurm-" + (self.site["link"] or cluster[:30])
        self.check_partitions()
        self.estimate, self.why = self.estimate_cell()
        self.check_methods()
        self.time = self.time_limit()
        out = options.out or os.path.join(self.site["out"], f"{options.experiment}-{time.strftime('%Y%m%d-%H%M%S')}")
        self.folder = folders.Folder(out)

    def plan_cells(self):
        options, most = self.options, self.site["max_nodes"]
        options.nodes = options.nodes or ("1" if self.experiment.kind == "kernels" else "2")
        nodes = planning.numbers(options.nodes, "--nodes")
        if most and nodes[-1] > int(most):
            raise planning.PlanError(f"--nodes: the site's settings allow {most} at most")
        ranks = planning.numbers(options.ranks_per_node, "--ranks-per-node")
        if self.experiment.kind == "kernels" and (nodes, ranks, self.launches) != ([1], [1], 1):
            raise planning.PlanError("kernels: one launch of one rank on one node, for the codecs are alone; other processors by "
                                     "--constraint and another --out")
        return planning.cells(nodes, ranks, self.launches, self.varied, options.order_seed, self.experiment.least_ranks)

    def ask_slurm(self):
        try:
            found = batch.config()
        except batch.BatchError:
            if self.options.dry_run:
                return {}
            raise
        most = int(found.get("MaxArraySize", "1001"))
        if len(self.cells) > most - 1:
            raise planning.PlanError(f"{len(self.cells)} cells, more than the {most - 1} that this cluster allows an array "
                                     "(MaxArraySize)")
        return found

    def check_partitions(self):
        """Finds what Slurm would refuse, or never start. It finds nothing if Slurm does not answer, or if the site's own
        options choose."""
        known = {p.name: p for p in batch.partitions()}
        if not known or any(o.startswith(("-p", "--partition", "-M", "--clusters")) for o in self.site["sbatch_options"]):
            return
        default = ",".join(p.name for p in known.values() if p.default)
        cells = self.options.partition or self.site["partition"] or default
        for name in filter(None, (*cells.split(","), self.site["small_partition"])):
            if name not in known:
                raise planning.PlanError(f"--partition: no partition '{name}' here; there are: {', '.join(known)}")
        most = max((known[name].nodes for name in cells.split(",") if name), default=0)
        asked = max(cell.nodes for cell in self.cells)
        if cells and asked > most:
            raise planning.PlanError(f"--nodes: {asked}, but partition {cells} has {most} nodes")

    def check_methods(self):
        """Lets the programs check their own options, so that a misspelt one is found here and not in the log of a cell."""
        policy, kind = self.options.policy, self.experiment.kind
        if policy and kind != "dropin":
            raise experiments.ExperimentError("--policy: only for dropin; of the others the program's options choose")
        if policy:
            experiments.refused_by(os.path.join(self.bin, "mpiq-run"), "--check-policy", "--policy", policy)
        if kind == "train":
            methods = experiments.value_of(self.words, "--methods")
            experiments.refused_by(os.path.join(self.bin, "mpiq-bench"), "allreduce", "--sizes=64K", f"--methods={methods}",
                                   "--dry-run")

    def estimate_cell(self):
        program = PROGRAMS[self.experiment.kind]
        if not os.access(os.path.join(self.bin, program), os.X_OK):
            raise experiments.ExperimentError(f"--bin: no {program} in {self.bin}: build it first")
        if self.experiment.kind != "bench":
            return None, ""
        return experiments.estimate(self.sweep, planning.words_of(self.varied), self.words, os.path.join(self.bin, program))

    def time_limit(self):
        """The time limit in seconds."""
        text = self.options.time or self.experiment.time
        if text:
            return planning.seconds(text, "--time")
        if self.estimate is None:
            raise planning.PlanError(f"--time: how long may a cell take? {self.why}".strip())
        return planning.limit_for(self.estimate.seconds)

    def asked(self):
        small = []
        for name in ("partition", "account", "qos", "constraint"):
            value = getattr(self.options, name) or self.site[name]
            if value:
                small.append(f"--{name}={value}")
        cells = [*small, *self.site["sbatch_options"]]
        if self.site["small_partition"]:
            small = [f"--partition={self.site['small_partition']}", *(o for o in small if not o.startswith("--partition"))]
        minutes, rest = divmod(self.time, 60)
        return batch.Asked(tuple(cells), tuple(small), self.options.cpus_per_task, self.gpus,
                           f"{minutes // 60}:{minutes % 60:02}:{rest:02}", self.options.at_once)

    def record(self):
        """What results depend on. The requests to Slurm are not part of it."""
        options = self.options
        version = experiments.program_version(os.path.join(self.bin, "mpiq-bench"))
        return {"experiment": options.experiment, "version": version,
                "sweep": self.sweep and {"section": self.sweep.section, "options": self.sweep.options, "env": self.sweep.env},
                "words": list(self.words), "policy": options.policy, "nodes": options.nodes,
                "ranks_per_node": options.ranks_per_node, "cpus_per_task": options.cpus_per_task,
                "gpus": self.gpus, "launches": self.launches, "link": self.link,
                "launcher": self.site["launcher"], "order_seed": options.order_seed}

    def settings(self):
        """The settings for jobs."""
        site, options = self.site, self.options
        return {"root": ROOT, "bin": self.bin, "python": site["python"], "kind": self.experiment.kind, "link": self.link,
                "modules": site["modules"], "launcher": site["launcher"], "srun_options": site["srun_options"],
                "min_free_mb": site["min_free_mb"], "cpus_per_task": options.cpus_per_task, "gpus_per_node": self.gpus,
                "max_restarts": options.max_restarts, "extra_options": self.words, "policy": options.policy or "",
                "program_folder": os.getcwd(),
                **{f"export {name}": value for name, value in (self.sweep.env if self.sweep else {}).items()}}

    def copies(self):
        """The files that the folder gets."""
        out = {}
        for name, path in (("site.sh", self.site_path), ("sweep.toml", self.sweep and self.sweep.path)):
            if path:
                with open(path, encoding="utf-8") as file:
                    out[name] = file.read()
        return out

    def source(self):
        """The name of the sweep file, in brackets."""
        if not self.sweep:
            return ""
        path = self.sweep.path
        return f" ({os.path.relpath(path, ROOT) if path.startswith(ROOT + os.sep) else path})"
