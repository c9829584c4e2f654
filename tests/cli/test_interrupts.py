"""Ctrl-C ends a command, whatever becomes of the exception."""

import signal
import subprocess
import sys
import textwrap

import pytest

BEGINNING = """
import argparse, sys, threading, time
from kompat.cli.command import CommandError, run

def ready():
    print("ready", flush=True)

def work(given):
"""
END = """
sys.exit(run(argparse.Namespace(), work))
"""

SWALLOWED = """
while True:
    try:
        ready()
        threading.Event().wait()
    except BaseException:
        pass
"""
# What kafka-python does now and then: the interrupt leaves a lock taken that its own thread needs, and closing waits for that thread.
LOCKED = """
lock = threading.Lock()
def serve():
    with lock: pass
lock.acquire()
thread = threading.Thread(target=serve, daemon=True)
thread.start()
try:
    ready()
    time.sleep(1000)
finally:
    thread.join()
"""
REPLACED = """
try:
    ready()
    time.sleep(1000)
except KeyboardInterrupt:
    raise CommandError("the broker has gone") from None
"""
TAKEN_FOR_THE_END = """
try:
    ready()
    time.sleep(1000)
except KeyboardInterrupt:
    return 0
"""


def start(work: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", BEGINNING + textwrap.indent(work, "    ") + END],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("work", [SWALLOWED, LOCKED, REPLACED, TAKEN_FOR_THE_END])
def test_one_interrupt_ends_a_command_whatever_its_client_makes_of_it(work: str) -> None:
    process = start(work)
    try:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert (process.returncode, said) == (130, "")


def test_what_a_command_has_to_tidy_up_is_done_before_it_ends() -> None:
    process = start(
        "try:\n    ready()\n    time.sleep(1000)\nfinally:\n    time.sleep(0.1)\n    print('left the group')\n"
    )
    process.send_signal(signal.SIGINT)
    told, said = process.communicate(timeout=60)

    assert (process.returncode, told, said) == (130, "left the group\n", "")


def test_the_second_interrupt_does_not_wait_for_anything() -> None:
    process = start(
        "try:\n    ready()\n    time.sleep(1000)\nfinally:\n    ready()\n    time.sleep(1.5)\n    print('tidied up')\n"
    )
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)

    assert (process.returncode, told) == (130, "")
