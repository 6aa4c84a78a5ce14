"""Reports of runs under the preload library: report_test.py FAMILY MPIQ_RUN MPIEXEC CONTROL OTHER_VERSION, where the last two
are the program of control.c and the library of other_version.c."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

FAMILY, RUN, MPIEXEC, CONTROL, OTHER_VERSION = sys.argv[1:6]


def mpiexec(*arguments, **environment):
    for _ in range(20):
        done = subprocess.run([MPIEXEC, *arguments], capture_output=True, text=True, timeout=90,
                              env={**os.environ, **environment}, check=False)
        if "show_help.c" not in done.stderr:  # else Open MPI has lost the words of an error
            break
    return done


def run(*arguments, ranks=2, **environment):
    return mpiexec("-n", str(ranks), RUN, *arguments, **environment)


class Reports(unittest.TestCase):
    def report(self, *arguments, **environment):
        """The JSON report of a run that ends well."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = run("--report", path, *arguments, **environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), ["report.json"])
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_every_call_is_counted_once_and_with_its_reason(self):
        report = self.report("--policy", ": onebit", CONTROL, "others")
        self.assertEqual(report["schema"], "mpi_quant-report-1")
        expected = {"compressed": 2, "small": 1, "op": 1, "type": 1, "alone": 1, "nonblocking": 1}
        if FAMILY == "mpich":
            expected["persistent"] = 1
        self.assertEqual({name: count for name, count in report["reasons"].items() if count}, expected)
        self.assertEqual(report["lossy_results"], 2)
        self.assertEqual(report["ranks"], 2)
        self.assertEqual(report["policy"], ": onebit")
        compressed = [c for c in report["classes"] if c["reasons"].get("compressed")]
        self.assertEqual(len(compressed), 1)
        self.assertEqual(compressed[0]["method"], "onebit")
        # Two ranks, two calls of 160000 bytes; one bit an element and two means for 2048 of them.
        self.assertEqual(compressed[0]["compressed_bytes"], 2 * 2 * 160000)
        self.assertLess(compressed[0]["wire_bytes"], 2 * 2 * 160000 / 24)
        self.assertGreater(compressed[0]["wire_bytes"], 2 * 2 * 160000 / 32)
        self.assertEqual(sum(sum(s["reasons"].values()) for s in report["sites"]), 2)

    # Reason, how often, mode of reasons.c, policy, further options. The program compares the results with
    # MPI's own, and a call counts as compressed, and its bytes are counted, only where they are not.
    REASONS = [
        ("compressed", 2, "twice", ": onebit", ()),
        ("would_be_compressed", 1, "plain", ": onebit", ("--explain",)),
        ("small", 1, "small", ": onebit", ()),
        ("op", 1, "op", ": onebit", ()),
        ("handle", 0, "null", ": onebit", ()),  # not counted: nothing may be asked of an invalid handle
        ("inter", 1, "inter", ": onebit", ()),
        ("alone", 1, "alone", ": onebit", ()),
        ("rule", 1, "plain", ": onebit; -1M: mpi", ()),
        ("rule", 1, "plain", "1M-: onebit", ()),
        ("slower", 1, "plain", ": auto(error=0.5)", ()),  # the first calls are exact
        ("switched_off", 1, "off", ": onebit", ()),
        ("split", 1, "split", ": onebit", ()),
        ("no_matrix", 1, "plain", ": lowrank", ()),
        ("guard", 2, "twice", ": onebit guard=1 error=1e-9", ()),  # by this call, and by the one before
        ("no_memory", 1, "memory", ": onebit", ()),
        ("no_memory", 1, "memory", ": onebit guard=1 error=10", ()),
        ("failed", 1, "bad_argument", ": onebit", ()),
    ]
    if FAMILY == "openmpi":  # MPICH ends such a program
        REASONS += [("overlap", 1, "overlap", ": onebit", options) for options in ((), ("--explain",))]
    REASONS += [("no_communicator", 1, "communicators", ": onebit", ())] if FAMILY == "mpich" else []  # it has 2048

    def test_every_reason_is_reported_as_what_happened(self):
        reasons = os.path.join(os.path.dirname(CONTROL), "reasons_" + FAMILY)
        for reason, count, mode, policy, options in self.REASONS:
            with self.subTest(reason=reason, mode=mode, policy=policy):
                lossy = "lossy" if reason == "compressed" else "exact"
                report = self.report("--policy", policy, *options, reasons, mode, lossy)
                counted = {name: n for name, n in report["reasons"].items() if n}
                self.assertEqual(counted, {**({reason: count} if count else {}), "type": 1})  # the other is the program's sum of failures
                self.assertEqual(report["lossy_results"], count if lossy == "lossy" else 0)
                compressed = sum(c["compressed_bytes"] for c in report["classes"])
                self.assertEqual(compressed, 2 * count * 160000 if lossy == "lossy" else 0)

    def test_other_forms_of_all_collectives_stay_mpi_s_and_are_counted(self):
        reasons = os.path.join(os.path.dirname(CONTROL), "reasons_" + FAMILY)
        rules = "; ".join(f"{name} 1K-: onebit" for name in ("allreduce", "reduce", "reduce_scatter", "allgather", "bcast"))
        report = self.report("--policy", rules, reasons, "forms", "exact")
        large = 2 if FAMILY == "mpich" else 1  # with the _c forms
        self.assertEqual({name: n for name, n in report["reasons"].items() if n},
                         {"nonblocking": 6 * large, "persistent": 6 * large, "type": 1})
        counted = {}
        for c in report["classes"]:
            calls = c["reasons"].get("nonblocking", 0) + c["reasons"].get("persistent", 0)
            if calls:
                counted[c["op"]] = calls, c["bytes"]
        # By collective: functions, and bytes of the whole vector. Two ranks report.
        self.assertEqual(counted, {op: (2 * functions * large, 2 * 2 * functions * large * size) for op, functions, size in (
            ("reduce(MPI_SUM)", 1, 160000), ("reduce_scatter(MPI_SUM)", 2, 80000), ("allgather", 2, 80000), ("bcast", 1, 160000))})

    def test_ranks_with_different_policies_or_versions_leave_their_calls_to_mpi(self):
        reasons = os.path.join(os.path.dirname(CONTROL), "reasons_" + FAMILY)
        for reason, variables in (("differs", 'MPIQ_POLICY=": int8"'), ("version", f'LD_PRELOAD="$LD_PRELOAD:{OTHER_VERSION}"')):
            second = f'if [ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = 1 ]; then export {variables}; fi; exec "$0" "$@"'
            report = self.report("--policy", ": onebit", "sh", "-c", second, reasons, "plain", "exact")
            self.assertEqual({name: n for name, n in report["reasons"].items() if n}, {reason: 1, "type": 1})
            self.assertEqual(report["lossy_results"], 0)
            self.assertEqual(sum(c["compressed_bytes"] for c in report["classes"]), 0)

    def test_no_sum_is_outside_where_there_is_a_report(self):
        # It then watches MPI from MPI_Init on, and so ends after all callbacks of MPI_Finalize. Without a
        # report they may come later than the library's end, and are exact (lifetime.c, finalize).
        report = self.report("--policy", ": onebit", os.path.join(os.path.dirname(CONTROL), "lifetime_" + FAMILY), "reported", "lossy")
        self.assertEqual({name: n for name, n in report["reasons"].items() if n}, {"compressed": 4, "type": 1})
        self.assertEqual(report["lossy_results"], 4)

    @unittest.skipIf(FAMILY == "mpich", "Debian's MPICH cannot spawn")
    def test_ranks_that_were_spawned_are_foreign(self):
        app = os.path.join(os.path.dirname(CONTROL), "app_" + FAMILY)
        report = self.report("--policy", ": onebit", app, "spawn", app, ranks=1)
        self.assertEqual(report["reasons"].get("foreign"), 1)
        self.assertEqual(report["lossy_results"], 0)

    def test_the_report_names_the_nodes(self):
        reasons = os.path.join(os.path.dirname(CONTROL), "reasons_" + FAMILY)
        self.assertEqual(self.report("--policy", ": onebit", reasons, "plain", "lossy")["nodes"], [socket.gethostname()])

    def with_knowledge(self, limit, mode, lossy, line, options=""):
        reasons = os.path.join(os.path.dirname(CONTROL), "reasons_" + FAMILY)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"# a comment\n160000 f32 @2 auto(error={limit}): {line}\n")
            file.flush()
            return self.report("--policy", f": auto(error={limit}){options}", reasons, mode, lossy, MPIQ_KNOWLEDGE=file.name)

    def test_auto_chooses_by_a_file_and_the_report_says_what(self):
        line = "int8/direct seconds=0.0001 mpi=0.001 margin=1.25 calls=9"
        report = self.with_knowledge(0.5, "twice", "lossy", line)
        self.assertEqual(report["reasons"].get("compressed"), 2)
        self.assertEqual(report["lossy_results"], 2)
        choice, = report["choices"]
        self.assertEqual((choice["method"], choice["asked"], choice["calls"], choice["compressed"], choice["judgements"]),
                         ("int8/direct", "auto(error=0.5)", 2, 2, 1))
        self.assertEqual((choice["methods"], choice["tried"], choice["over_limit"]), (10, 1, 0))
        self.assertGreater(choice["worst_error"], 0)
        self.assertLess(choice["worst_error"], 0.05)
        self.assertEqual([c["method"] for c in report["classes"] if c["reasons"].get("compressed")], ["int8/direct"])

    def test_data_that_lose_more_than_the_limit_are_exact_whatever_the_file_says(self):
        report = self.with_knowledge(1e-5, "twice", "exact", "int8/direct seconds=0.0001 mpi=0.001 margin=1.25 calls=9")
        self.assertEqual({name: n for name, n in report["reasons"].items() if n}, {"inexact": 2, "type": 1})
        self.assertEqual((report["choices"][0]["inexact"], report["choices"][0]["over_limit"]), (2, 1))

    def test_auto_with_feedback_leaves_what_has_no_key_to_mpi(self):
        report = self.with_knowledge("feedback", "twice", "exact", "onebit/direct seconds=0.0001 mpi=0.001 margin=1.25 calls=9", " feedback=key")
        self.assertEqual({name: n for name, n in report["reasons"].items() if n}, {"no_residual": 2, "type": 1})

    def test_auto_writes_what_it_has_learnt_and_refuses_a_damaged_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "knowledge.txt")
            self.report("--policy", ": auto(error=0.5)", CONTROL, "many", MPIQ_KNOWLEDGE_OUT=path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertRegex(text, r"\n\d+ f32 @2 auto\(error=0.5\): \S+ seconds=\S+ mpi=\S+ margin=\S+ calls=\d+\n")
            again = self.report("--policy", ": auto(error=0.5)", CONTROL, "many", MPIQ_KNOWLEDGE=path)
            self.assertEqual(len(again["choices"]), 1)
            with open(path, "w", encoding="utf-8") as file:
                file.write("nonsense\n")
            done = run("--policy", ": auto", CONTROL, "many", MPIQ_KNOWLEDGE=path)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn('MPIQ_KNOWLEDGE, line 1: bad word "nonsense"', done.stdout + done.stderr)
            done = run("--policy", ": auto", CONTROL, "many", MPIQ_KNOWLEDGE=path + ".none")
            self.assertIn("MPIQ_KNOWLEDGE: cannot read", done.stdout + done.stderr)

    def test_unknown_commands_are_counted_and_the_first_is_named(self):
        report = self.report("--policy", ": onebit", CONTROL, "pcontrol")
        self.assertEqual((report["unknown_commands"], report["first_unknown_command"]), (2, "nonsense"))
        done = run("--report", "-", "--policy", ": onebit", CONTROL, "pcontrol")
        self.assertIn('Commands of MPI_Pcontrol that were not understood: 2. The first: "nonsense"', done.stderr)

    def test_without_a_policy_nothing_is_lossy(self):
        report = self.report(CONTROL, "others")
        self.assertEqual(report["lossy_results"], 0)
        self.assertEqual(report["reasons"].get("rule"), 2)
        self.assertNotIn("compressed", {name for name, count in report["reasons"].items() if count})

    def test_explain_changes_nothing_and_says_what_on_would_do(self):
        rules = "site=*sum_far*: onebit feedback=address; 64K- f32: bf16"
        explained = self.report("--explain", "--policy", rules, CONTROL, "differ")  # exits 0 only if the sum is exact
        self.assertEqual(explained["mode"], "explain")
        self.assertEqual(explained["lossy_results"], 0)
        on = self.report("--policy", rules, CONTROL, "others")
        again = self.report("--explain", "--policy", rules, CONTROL, "others")

        def decisions(report, reason):
            return sorted((c["comm"], c["bytes_min"], c["type"], c["op"], c["method"], c["reasons"][reason])
                          for c in report["classes"] if c["reasons"].get(reason))
        self.assertEqual(decisions(on, "compressed"), decisions(again, "would_be_compressed"))
        self.assertTrue(decisions(on, "compressed"))

    def test_advice_changes_nothing_and_knows_each_method(self):
        report = self.report("--advise", CONTROL, "differ")
        self.assertEqual(report["mode"], "advise")
        self.assertEqual(report["lossy_results"], 0)
        methods = {m["method"]: m for m in report["advice"][0]["methods"]}
        self.assertIn("onebit", methods)
        self.assertGreater(methods["bf16"]["predicted_s"], 0)
        self.assertLess(methods["bf16"]["error"], 0.01)
        self.assertGreater(methods["onebit"]["error"], 0.2)
        self.assertLess(methods["onebit"]["bytes_per_element"], 0.14)

    def test_suggested_policies_with_a_large_error_have_feedback_and_error_leaves_them_out(self):
        # Whatever the machine promises today: no policy to paste holds a coarse method alone.
        suggestion = self.report("--advise", CONTROL, "differ")["suggestion"]
        self.assertEqual(suggestion["error"], 0.01)
        for policy in suggestion["policy"], suggestion["with_feedback"]:
            for rule in policy.split("; ") if policy else ():
                self.assertTrue(rule.endswith(("bf16", "int8", "mpi", "feedback=address")), rule)
        self.assertNotIn("feedback", suggestion["policy"])
        self.assertNotIn("bound", suggestion["policy"])

    def test_advice_with_an_error_tries_bound_and_suggests_nothing_coarser(self):
        for wanted in ({"args": ("--error", "1e-6")}, {"env": {"MPIQ_ADVISE_ERROR": "1e-6"}}):
            report = self.report("--advise", *wanted.get("args", ()), CONTROL, "differ", **wanted.get("env", {}))
            for of_class in report["advice"]:
                errors = {m["method"]: m["error"] for m in of_class["methods"]}
                self.assertLess(errors["bound(rel=1.5625e-08)"], errors["bound(rel=2.5e-07)"])
                self.assertLess(errors["bound(rel=2.5e-07)"], 1e-6)
            suggestion = report["suggestion"]
            self.assertEqual(suggestion["error"], 1e-6)
            for rule in suggestion["policy"].split("; ") if suggestion["policy"] else ():
                self.assertRegex(rule, r"(bound\(rel=[^)]*\)|mpi)$")

    def test_advice_checks_the_exact_sum_beside_each_method(self):
        said = run("--advise", CONTROL, "differ").stderr
        for method in ("mpi", "bf16", "onebit", "adaptive"):
            self.assertRegex(said, rf"(?m)^  {method}, \d+K?M?@2: predicted \S+ ms, measured \S+ ms, ratio ")

    def test_feedback_that_is_lost_is_a_warning_in_text_and_json(self):
        rules = ("--policy", ": onebit feedback=address", CONTROL, "feedback", "none")
        warned = self.report(*rules, MPIQ_RESIDUALS="1K")
        compressed = [c for c in warned["classes"] if c["reasons"].get("compressed")]
        self.assertTrue(all("MPIQ_RESIDUALS" in c["warning"] for c in compressed), compressed)
        self.assertTrue(all(c["feedback_lost"] > 0 for c in compressed))
        said = run("--report", "-", *rules, MPIQ_RESIDUALS="1K").stderr
        self.assertIn("of the calls with feedback lost their residual", said)
        self.assertRegex(said, r"(?m)^  budget +dropped or never kept")

    def test_without_a_report_a_line_says_that_feedback_does_not_work(self):
        """Under mpiq-run alone, on one rank, and only where calls went without."""
        said = "mpi_quant: 100 % of the calls with feedback ran without it, because the library did not recognise the vector (unconfirmed). State a key"
        strangers = ("--policy", ": onebit feedback=address", CONTROL, "strangers")
        self.assertEqual(run(*strangers).stderr.count(said), 1)
        self.assertIn("lost their residual", run(*strangers[:3], "feedback", "none", MPIQ_RESIDUALS="1K").stderr)
        for quiet in (("--policy", ": onebit feedback=address", CONTROL, "feedback", "address"), ("--policy", ": onebit", CONTROL, "strangers"),
                      ("--policy", ": onebit feedback=off", CONTROL, "strangers")):
            self.assertEqual(run(*quiet).stderr, "", quiet)
        self.assertNotIn(said, run("--report", "-", *strangers).stderr, "the report says it")

    def test_feedback_is_counted_by_what_became_of_it(self):
        report = self.report("--policy", ": onebit feedback=address", CONTROL, "feedback", "address")
        feedback = [c["feedback"] for c in report["classes"] if c["reasons"].get("compressed")]
        total = {name: sum(f.get(name, 0) for f in feedback) for name in ("unconfirmed", "fresh", "hit")}
        self.assertEqual(total, {"unconfirmed": 2 * 2 * 3, "fresh": 0, "hit": 2 * 2 * 97})

    def test_guarded_calls_have_an_error(self):
        report = self.report("--policy", ": bf16 guard=3 error=0.01", CONTROL, "guard_within")
        guarded = [c for c in report["classes"] if c.get("guarded")]
        self.assertEqual(len(guarded), 1)
        self.assertEqual(guarded[0]["guarded"], 2 * 3)  # of 8 calls on two ranks
        self.assertGreater(guarded[0]["guard_error_max"], 1e-4)
        self.assertLess(guarded[0]["guard_error_max"], 1e-2)

    def test_a_communicator_is_itself_though_it_has_the_handle_of_another(self):
        report = self.report("--policy", ": onebit", os.path.join(os.path.dirname(CONTROL), "apart_" + FAMILY), "reuse")
        calls = {}
        for c in report["classes"]:
            calls.setdefault(c["comm"], []).append(c["calls"])
        self.assertEqual(calls, {"first": [1, 1], "second": [1, 1]})

    def test_a_report_is_written_where_mpi_is_finalized_at_exit(self):
        lifetime = os.path.join(os.path.dirname(CONTROL), "lifetime_" + FAMILY)
        report = self.report("--policy", ": onebit", lifetime, "atexit", "lossy", MALLOC_PERTURB_="165")
        self.assertGreater(report["lossy_results"], 0)

    def test_the_table_ends_in_a_verdict(self):
        done = run("--report", "-", "--policy", ": onebit", CONTROL, "others")
        self.assertEqual(done.stderr.strip().splitlines()[-1], "2 results delivered to the program were lossy.")
        done = run("--report", "-", CONTROL, "others")
        self.assertEqual(done.stderr.strip().splitlines()[-1], "No result delivered to the program was lossy.")


class Trouble(unittest.TestCase):
    def test_a_report_that_cannot_be_written_is_said_and_harms_nothing(self):
        done = run("--report", "/none/report.json", CONTROL, "others")
        self.assertEqual(done.returncode, 0, done.stderr)
        at_start, at_end = 'there will be no report "/none/report.json": No such file', 'cannot write the report "/none/report.json"'
        self.assertEqual((done.stderr.count(at_start), done.stderr.count(at_end)), (1, 1), done.stderr)
        self.assertLess(done.stderr.index(at_start), done.stderr.index(at_end))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f'there will be no report "{folder}": Is a directory', run("--report", folder, CONTROL, "others").stderr)

    def test_the_trial_at_the_start_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.txt")
            for before in (None, "an earlier report"):
                if before:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(before)
                done = run("--report", path, CONTROL, "aborts")
                self.assertNotIn("there will be no report", done.stderr)
                self.assertEqual(os.path.exists(path), before is not None)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "an earlier report")

    def library(self):
        return re.search(r"LD_PRELOAD=(\S+)", subprocess.run([RUN, "/usr/bin/env"], capture_output=True, text=True,
                                                             check=True).stdout).group(1)

    def test_ranks_of_different_modes_stay_exact_and_do_not_wait_for_ever(self):
        library = self.library()
        common = ["env", "LD_PRELOAD=" + library, "MPIQ_WATCHDOG=1", "MPIQ_POLICY=: onebit"]
        for first, second in ((["MPIQ_MODE=explain"], []), ([], ["MPIQ_MODE=advise"])):
            done = mpiexec("-n", "1", *common, *first, CONTROL, "differ", ":", "-n", "1", *common, *second, CONTROL, "differ")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("a report of 1 of 2 ranks", done.stderr)

    def test_rules_may_come_from_a_file_that_must_be_there(self):
        with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
            file.write("# all\n: onebit\n")
            file.flush()
            done = run("--report", "-", CONTROL, "others", MPIQ_POLICY_FILE=file.name)
            self.assertIn("2 results delivered to the program were lossy.", done.stderr)
        done = run(CONTROL, "others", MPIQ_POLICY_FILE="/none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('cannot read "/none"', done.stderr)

    def test_a_bad_rule_is_named_with_its_file_and_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
            file.write("# all\n: onebit\n1M-: onebt\n")
            file.flush()
            library = self.library()
            done = mpiexec("-n", "2", "env", "LD_PRELOAD=" + library, "MPIQ_POLICY_FILE=" + file.name, CONTROL, "others")
            self.assertIn(f'MPIQ_POLICY_FILE "{file.name}", line 3: ', done.stdout + done.stderr)
            done = run("--policy-file", file.name, CONTROL, "others")
            self.assertIn(f'--policy-file "{file.name}", line 3: ', done.stderr)

    def test_a_symbolic_link_is_not_followed(self):
        with tempfile.TemporaryDirectory() as folder:
            target, link = os.path.join(folder, "target"), os.path.join(folder, "report.txt")
            with open(target, "w", encoding="utf-8") as file:
                file.write("the user's")
            os.symlink(target, link)
            done = run("--report", link, CONTROL, "others")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'there will be no report "{link}": it is a symbolic link', done.stderr)
            with open(target, encoding="utf-8") as file:
                self.assertEqual(file.read(), "the user's")

    def test_a_sum_that_no_small_rule_matches_is_not_below_the_floor(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            run("--report", path, "--policy", "4K-8K small: onebit", CONTROL, "small")  # which expects more of the policy
            with open(path, encoding="utf-8") as file:
                reasons = json.load(file)["reasons"]
        # Of 4096, 65532, 4092 and 65536 bytes.
        self.assertEqual({name: count for name, count in reasons.items() if count}, {"compressed": 1, "rule": 2, "small": 1})

    def test_bad_modes_are_refused(self):
        done = run(CONTROL, "others", MPIQ_MODE="maybe")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('MPIQ_MODE: unknown word "maybe"', done.stdout + done.stderr)
        done = run("--explain", "--advise", CONTROL, "others")
        self.assertNotEqual(done.returncode, 0)

    def test_bad_limits_of_error_are_refused(self):
        for given in ("0", "-1", "nan", "1e-6x"):
            done = run("--advise", "--error", given, CONTROL, "others")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is not a number above 0, like 1e-6", done.stderr)
        done = run(CONTROL, "others", MPIQ_ADVISE_ERROR="many")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('MPIQ_ADVISE_ERROR: "many" is not a number above 0', done.stdout + done.stderr)
        self.assertNotEqual(run("--error", "1e-6", CONTROL, "others").returncode, 0)  # of advice alone


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
