#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "passed failed skipped" of a JUnit file that ctest wrote; exit 1 when it has no test."""
import sys
import xml.etree.ElementTree


def main():
    try:
        cases = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(error, file=sys.stderr)
        return 1
    states = {"run": 0, "fail": 0, "notrun": 0}
    for case in cases:
        status = case.get("status")
        if status == "notrun" and case.find("skipped") is not None:
            message = case.find("skipped").get("message", "")
            # A program that is missing is "not run" too; only a test that says so itself is a skip.
            status = "notrun" if "SKIP_RETURN_CODE" in message else "fail"
        states[status if status in states else "fail"] += 1
    print(states["run"], states["fail"], states["notrun"])
    return 0 if cases else 1


if __name__ == "__main__":
    sys.exit(main())
