"""What the tests of scripts/ share: where the scripts are, how to call one, a folder that goes away."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SCRIPTS = os.path.join(ROOT, "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True  # leave no files in scripts/


def committed(pattern):
    """Files of results/*/ that the repository has: what was measured here may be anything. All of them where there is no git."""
    found = sorted(glob.glob(os.path.join(ROOT, "results", "*", pattern)))
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "results"], capture_output=True, text=True, check=False).stdout
    except OSError:
        listed = ""
    known = {os.path.join(ROOT, line) for line in listed.splitlines()}
    return [path for path in found if path in known] if known else found


def call(*command, env=None):
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})


def script(name):
    return os.path.join(SCRIPTS, name)


class InTemporaryFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mpiq-scripts-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)
