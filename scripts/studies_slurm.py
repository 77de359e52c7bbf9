"""A Slurm of this host alone, for the checks of studies: controller, one node, munge, in a directory. Root; Debian's
packages slurmctld, slurmd, slurm-client, munge."""

import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time


class Slurm:
    """As a context: daemons run within, and are ended behind."""

    def __init__(self, directory: pathlib.Path, cpus: int = 2, port: int = 26817) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.node = socket.gethostname().split(".")[0]
        self._cpus, self._port = cpus, port
        self.environment = {**os.environ, "SLURM_CONF": str(directory / "slurm.conf")}

    @staticmethod
    def missing() -> list[str]:
        """Programs that are not there."""
        return [p for p in ("slurmctld", "slurmd", "sbatch", "munged") if shutil.which(p) is None]

    def _config(self) -> str:
        d = self.directory
        return f"""
ClusterName=check
SlurmctldHost={self.node}(127.0.0.1)
SlurmctldPort={self._port}
SlurmdPort={self._port + 1}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={d}/munge.socket
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd.pid
SlurmctldLogFile={d}/slurmctld.log
SlurmdLogFile={d}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=20
RequeueExit=
NodeName={self.node} NodeAddr=127.0.0.1 CPUs={self._cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""".replace("RequeueExit=\n", "")

    def _start(self, *command: str) -> None:
        log = open(self.directory / f"{pathlib.Path(command[0]).name}.out", "wb")
        process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self._processes.append(process)

    def __enter__(self) -> "Slurm":
        for name in ("state", "spool"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "slurm.conf").write_text(self._config())
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        d = self.directory
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={d}/munge.socket",
            f"--key-file={key}",
            f"--pid-file={d}/munged.pid",
            f"--log-file={d}/munged.log",
            f"--seed-file={d}/munged.seed",
        )
        self._until(lambda: (d / "munge.socket").exists(), "munged")
        self._start("slurmctld", "-D", "-f", str(d / "slurm.conf"))
        self._start("slurmd", "-D", "-f", str(d / "slurm.conf"), "-N", self.node)
        self._until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), "slurmd")
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("scancel", "--full", "-u", "root")
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _until(self, done, what: str) -> None:
        for _ in range(300):
            if done():
                return
            time.sleep(0.1)
        logs = "\n".join(f.read_text(errors="replace")[-1500:] for f in self.directory.glob("*.log"))
        raise SystemExit(f"{what} does not come up:\n{logs}")

    def ask(self, *command: str) -> str:
        """What a command of Slurm says."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout

    def drain(self, yes: bool) -> None:
        """Sets the node to take no more tasks, or to take them again."""
        state = ["state=drain", "reason=check"] if yes else ["state=resume"]
        self.ask("scontrol", "update", f"nodename={self.node}", *state)
