"""Runs tests of this folder. The last line is "N passed, N failed"; a subtest that fails counts like a test.

Usage: counted.py discover | counted.py TEST...
"""

import sys
import unittest


def main():
    loader = unittest.defaultTestLoader
    if sys.argv[1:] == ["discover"]:
        suite = loader.discover(".", pattern="*_test.py", top_level_dir=".")
    else:
        suite = loader.loadTestsFromNames(sys.argv[1:])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    broken = {getattr(test, "test_case", test) for test, _ in result.failures + result.errors}
    passed = max(0, result.testsRun - len(result.skipped) - len(broken))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
