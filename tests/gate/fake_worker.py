"""A worker that answers as it is told by its first argument. The last one is the descriptor."""

import os
import signal
import subprocess
import sys
import time

from pytest_rightfast.messages import (
    VERSION,
    Bye,
    Collect,
    Collected,
    Done,
    Failed,
    Hello,
    Ready,
    Sample,
    Sampled,
)
from pytest_rightfast.protocol import Channel


def answer(mode, request):
    match request:
        case Hello():
            return Ready(VERSION + (mode == "other version"), os.getpid(), {"python": "3"})
        case Collect():
            return Collected([os.getcwd(), os.environ.get("SIDE", "")])
        case Sample() if mode == "raise":
            return Failed("ValueError: boom", "  File x, line 1")
        case Sample():
            return Sampled([0.5] * request.least)
        case _:
            return Done()


def misbehave(mode, fd, channel, number):
    if mode == "die":
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "exit":
        sys.exit("no more disk")
    if mode == "orphan":  # its child keeps the wire open
        subprocess.Popen(["sleep", "60"], pass_fds=[fd])
        os._exit(7)
    if mode == "hang":
        subprocess.Popen(["sleep", "60"])
        print("hanging", flush=True)
        time.sleep(60)
    if mode == "babble":
        os.write(fd, b"Warning: something\n")
    if mode == "stale":
        channel.send(number - 1, Sampled([1.0]))
    if mode == "other kind":
        channel.send(number, Done())
    if mode == "close":
        channel.close()
        time.sleep(60)


def main():
    mode, fd = sys.argv[1], int(sys.argv[-1])
    channel = Channel.from_fd(fd)
    print("printed by the code under test", flush=True)
    os.write(1, b"x" * 200_000 if mode == "loud" else b"")
    while True:
        number, request = channel.receive()
        if isinstance(request, Sample):
            misbehave(mode, fd, channel, number)
        channel.send(number, answer(mode, request))
        if isinstance(request, Bye):
            if mode == "lingers":
                time.sleep(60)
            return


main()
