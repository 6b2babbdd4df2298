#!/usr/bin/env python3
"""The daemons as a service manager sees them: notifications, signals, exit codes, limits."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

SERVER = os.path.abspath("server/sangam-server")
WORKER = os.path.abspath("worker/sangam-worker")
DEADLINE = 30


class Manager:
    """The socket that NOTIFY_SOCKET names."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name[0] == "@" else name)
        self.socket.settimeout(DEADLINE)

    def next(self, *, but=("WATCHDOG=1",)):
        while True:
            message = self.socket.recv(4096).decode()
            if message not in but:
                return message


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        self.manager = Manager(os.path.join(self.folder, "notify"))
        self.addCleanup(self.manager.socket.close)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def start(self, command, name, notify=None, **more):
        environment = {"NOTIFY_SOCKET": notify or self.path("notify"), **more}
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as log:
            return log.read()

    def await_log(self, name, text):
        end = time.monotonic() + DEADLINE
        while text not in self.log(name):
            self.assertLess(time.monotonic(), end, "no %r in:\n%s" % (text, self.log(name)))
            time.sleep(0.05)

    def start_server(self, *flags, **more):
        process = self.start([SERVER, "--listen=127.0.0.1:0", *flags], "server", **more)
        ready = self.manager.next()
        self.assertRegex(ready, r"\AREADY=1\nSTATUS=serving at 127\.0\.0\.1:\d+\Z")
        return process, ready.rsplit(" ", 1)[1]

    def test_a_server_tells_of_its_life(self):
        server, _ = self.start_server(WATCHDOG_USEC="1000000")
        # Several signs of life a second.
        start = time.monotonic()
        for _ in range(3):
            self.assertEqual(self.manager.next(but=()), "WATCHDOG=1")
        self.assertLess(time.monotonic() - start, 3)
        server.send_signal(signal.SIGHUP)
        self.assertRegex(self.manager.next(), r"\ARELOADING=1\nMONOTONIC_USEC=\d+\Z")
        self.assertTrue(self.manager.next().startswith("READY=1\n"))
        server.send_signal(signal.SIGTERM)
        self.assertEqual(self.manager.next(), "STOPPING=1\nSTATUS=draining")
        self.assertEqual(server.wait(DEADLINE), 143)

    def test_a_worker_is_ready_when_it_is_registered(self):
        name = "@sangam-service-test-%d" % os.getpid()
        abstract = Manager(name)
        self.addCleanup(abstract.socket.close)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        worker = self.start([WORKER, "--coordinator=" + address, "--name=w1", "--threads=1"], "worker", notify=name)
        abstract.socket.settimeout(1)
        with self.assertRaises(socket.timeout):
            abstract.next()
        server = self.start([SERVER, "--listen=" + address], "server")
        abstract.socket.settimeout(DEADLINE)
        self.assertEqual(abstract.next(), "READY=1\nSTATUS=working for %s as w1" % address)
        worker.send_signal(signal.SIGINT)
        self.assertEqual(abstract.next(), "STOPPING=1\nSTATUS=draining")
        self.assertEqual(worker.wait(DEADLINE), 130)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(DEADLINE), 143)

    def test_a_signal_ends_a_start_that_waits(self):
        worker = self.start([WORKER, "--coordinator=127.0.0.1:1", "--threads=1"], "worker")
        time.sleep(1)
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(DEADLINE), 143)

    def test_hangup_takes_new_values(self):
        config = self.write("a.conf", "log_level = info\nlease = 5s\n")
        server, _ = self.start_server("--config=" + config, SANGAM_LEAS="3s", SANGAM_X_SERVICE_HOST="10.0.0.1")
        self.assertIn("did you mean", self.log("server"))
        self.assertNotIn("SERVICE_HOST", self.log("server"))
        self.write("a.conf", "log_level = debug\nlease = 6s\n")
        server.send_signal(signal.SIGHUP)
        self.await_log("server", "reload: done ok=1")
        self.assertIn("reload: changed flag=log_level from=info to=debug", self.log("server"))
        self.assertIn("changes at the next start flag=lease running=5s found=6s", self.log("server"))
        self.write("a.conf", "log_level = loud\n")
        server.send_signal(signal.SIGHUP)
        self.await_log("server", "reload: done ok=0")
        self.assertIn("a.conf:1: log_level: found 'loud'", self.log("server").replace("\\'", "'"))
        self.assertIsNone(server.poll())

    def test_user_signal_writes_the_state_into_the_log(self):
        server, address = self.start_server("--name=s1")
        server.send_signal(signal.SIGUSR1)
        self.await_log("server", "state daemon role=server name=s1")
        self.assertRegex(self.log("server"), r"state serving at %s pid=%d rss_bytes=\d+ threads=\d+ open_files=\d+" % (re.escape(address), server.pid))

    def test_a_flood_of_signals_does_no_harm(self):
        server, _ = self.start_server()
        for _ in range(300):
            server.send_signal(signal.SIGHUP)
            server.send_signal(signal.SIGUSR1)
        self.await_log("server", "reload: done")
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(DEADLINE), 143)

    def test_limits(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))

        with open(self.path("server.log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [SERVER, "--listen=127.0.0.1:0"], stdout=log, stderr=log, preexec_fn=lower,
                env={"NOTIFY_SOCKET": self.path("notify")},
            )
        self.addCleanup(self.end, server)
        self.manager.next()
        with open("/proc/%d/limits" % server.pid, encoding="utf-8") as file:
            limits = file.read()
        self.assertRegex(limits, r"Max open files\s+4096\s+4096")
        self.assertRegex(limits, r"Max core file size\s+0\s")
        with open("/proc/%d/status" % server.pid, encoding="utf-8") as file:
            self.assertIn("NoNewPrivs:\t1\n", file.read())

    def test_two_with_one_folder_or_one_port(self):
        state = self.path("state")
        server, address = self.start_server("--role=coordinator", "--state_dir=" + state, "--name=first")
        second = subprocess.run(
            [SERVER, "--listen=127.0.0.1:0", "--role=coordinator", "--state_dir=" + state],
            capture_output=True, text=True, timeout=DEADLINE, check=False,
        )
        self.assertEqual(second.returncode, 78)
        self.assertIn("locked by pid %d (first)" % server.pid, second.stderr)
        third = subprocess.run(
            [SERVER, "--listen=" + address], capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        self.assertEqual(third.returncode, 78)
        self.assertIn(address, third.stderr)
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    unittest.main()
