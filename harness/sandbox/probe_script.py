"""Runs as the agent of `harness doctor`: tries to break out, prints what it met as JSON. Standard library only.

`probe.json` beside it says where things are. Whatever it does not foresee ends it, which the doctor counts as failed.
"""

import ctypes
import errno
import http.client
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CONNECT_S = 2.0
STANDARD_MOUNTS = ("/", "/proc", "/dev", "/sys", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts")
STANDARD_PREFIXES = ("/proc/", "/dev/", "/sys/", "/sbin/docker-init", "/usr/sbin/docker-init")
AF_VSOCK, AF_PACKET, AF_ALG = 40, 17, 38
CLONE_NEWUSER, MS_REMOUNT_BIND = 0x10000000, 0x1020
LIBC = ctypes.CDLL(None, use_errno=True)

Outcome = tuple[bool, str]
Config = dict[str, Any]


def connects(address: str, port: int) -> tuple[bool, str]:
    """Whether a TCP connection comes about, and what was met."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as link:
            link.settimeout(CONNECT_S)
            link.connect((address, port))
    except OSError as error:
        return False, f"{address}:{port} {errno.errorcode.get(error.errno or 0, 'timed out')}"
    return True, f"{address}:{port} CONNECTED"


def unreachable(addresses: list[str], port: int) -> Outcome:
    """That none of the addresses takes a connection (a refusal would mean that packets arrive, and fails too)."""
    with ThreadPoolExecutor(max_workers=32) as pool:
        met = list(pool.map(lambda address: connects(address, port), addresses))
    return not any(ok or "ECONNREFUSED" in text for ok, text in met), "; ".join(text for _, text in met) or "none there"


def no_way_out(config: Config) -> Outcome:
    """That a default route (Engine 20.10 sets one in internal networks too) leads to an address which nobody has."""
    routes = [line.split()[1:3] for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    gateways = [socket.inet_ntoa(bytes.fromhex(via)[::-1]) for to, via in routes if to == "00000000"]
    for gateway in gateways:
        connects(gateway, 9)
    arp = [line.split() for line in Path("/proc/net/arp").read_text().splitlines()[1:]]
    resolved = [fields[0] for fields in arp if fields[0] in gateways and fields[3] != "00:00:00:00:00:00"]
    path = Path("/proc/net/if_inet6")
    lines = path.read_text().splitlines() if path.exists() else []
    addresses = [line.split()[0] for line in lines if line.split()[-1] != "lo"]
    is_shut = set(gateways) <= {config["gateway"]} and not resolved and not addresses
    return is_shut, f"gateways {gateways}, of which answer {resolved}; IPv6 addresses {addresses}"


def names(config: Config) -> Outcome:
    begin = time.monotonic()
    try:
        found = [entry[4][0] for entry in socket.getaddrinfo("example.com", 443)]
    except OSError:
        found = []
    taken = time.monotonic() - begin
    grader = socket.gethostbyname("grader")
    text = f"example.com: {found or 'no address'} after {taken:.1f} s; grader: {grader}"
    return not found and taken < 10 and grader == config["grader"], text


def ask(address: str, port: int, method: str, path: str) -> int:
    link = http.client.HTTPConnection(address, port, timeout=5)
    try:
        link.request(
            method, path, body="{}" if method == "POST" else None, headers={"Content-Type": "application/json"}
        )
        return link.getresponse().status
    except OSError:
        return 0
    finally:
        link.close()


def ask_grader(config: Config, method: str, path: str) -> int:
    return ask(config["grader"], config["grader_port"], method, path)


def grader_answers(config: Config) -> Outcome:
    status = ask_grader(config, "GET", config["health_path"])
    return status != 0, f"GET {config['health_path']}: {status or 'no answer'}"


def admin_routes(config: Config) -> Outcome:
    met = {f"{method} {path}": ask_grader(config, method, path) for method, path in config["admin_routes"]}
    return all(status == 404 for status in met.values()), str(met)


def gateway_ports(config: Config) -> Outcome:
    """That of the gateway's ports none answers but the two that are for agents."""
    place = config["llm_gateway"]
    with ThreadPoolExecutor(max_workers=16) as pool:
        met = pool.map(lambda port: connects(place["address"], port)[0], range(1, 65536))
    found = [port for port, is_open in enumerate(met, start=1) if is_open]
    return place["ports"][0] in found and set(found) <= set(place["ports"]), f"open: {found}"


def gateway_routes(config: Config) -> Outcome:
    """That it is alive, and that nothing of it is for those without a run's token."""
    address, port = config["llm_gateway"]["address"], config["llm_gateway"]["ports"][0]
    met = {f"{method} {path}": ask(address, port, method, path) for method, path in config["llm_gateway"]["routes"]}
    return ask(address, port, "GET", "/") == 200 and all(status in (401, 404) for status in met.values()), str(met)


def entries(start: str) -> Iterator[os.DirEntry[str]]:
    """Everything below `start` that can be seen, links not followed."""
    waiting = [start]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.path not in ("/proc", "/sys"):
                        waiting.append(entry.path)
        except OSError:
            continue


def file_tree(config: Config) -> Iterator[tuple[str, Outcome]]:
    """Three findings of one walk: the hidden canary, sockets, devices."""
    canaries, sockets, devices = [], [], []
    for entry in entries("/"):
        if entry.name == config["canary"]:
            canaries.append(entry.path)
        if not (entry.is_symlink() or entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
            mode = entry.stat(follow_symlinks=False).st_mode
            sockets += [entry.path] if stat.S_ISSOCK(mode) else []
            devices += [entry.path] if stat.S_ISBLK(mode) or entry.name in ("mem", "kmem", "vsock", "kvm") else []
    visible = [path for path in config["hidden_paths"] if os.path.lexists(path)]
    yield (
        "hidden_data",
        (not canaries and not visible, f"found {canaries + visible}" if canaries + visible else "absent"),
    )
    yield "unix_sockets", (not sockets, f"found {sockets}" if sockets else "none, the Docker socket included")
    yield "devices", (not devices, f"found {devices}" if devices else "no block device, no memory device")


def mounts(config: Config) -> Outcome:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    known = {*STANDARD_MOUNTS, *config["mounts"]}
    odd = [point for point in points if point not in known and not point.startswith(STANDARD_PREFIXES)]
    return not odd and len(points) > 5, f"unknown mounts {odd}" if odd else f"{len(points)} mounts, all known"


def refused(action: Callable[[], Any]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ALLOWED"


def cannot_write(folder: str) -> Outcome:
    """That a folder which the agent's user owns is held read-only by its mount, whatever the system call."""
    place = Path(folder)
    file = next(path for path in sorted(place.iterdir()) if path.is_file())
    met = {
        "open": refused(lambda: os.close(os.open(file, os.O_WRONLY))),
        "append": refused(lambda: os.close(os.open(file, os.O_RDWR | os.O_APPEND))),
        "create": refused(lambda: os.close(os.open(place / "new", os.O_WRONLY | os.O_CREAT))),
        "truncate": refused(lambda: os.truncate(file, 0)),
        "unlink": refused(file.unlink),
        "rename": refused(lambda: file.rename(place / "other")),
        "link": refused(lambda: os.link(file, place / "hard")),
        "symlink": refused(lambda: (place / "soft").symlink_to("/etc")),
        "mkdir": refused((place / "folder").mkdir),
        "chmod": refused(lambda: file.chmod(0o777)),
        "utime": refused(lambda: os.utime(file, (0, 0))),
        "setxattr": refused(lambda: os.setxattr(file, "user.probe", b"1")),
        "mknod": refused(lambda: os.mknod(place / "fifo", stat.S_IFIFO | 0o600)),
    }
    remount = system_call("remount", lambda: LIBC.mount(None, folder.encode(), None, MS_REMOUNT_BIND, None))
    return all(code == "EROFS" for code in met.values()) and remount[0], f"{met}, {remount[1]}"


def root_read_only(_: Config) -> Outcome:
    is_read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    folders = [name for name in ("/", "/etc", "/usr/bin", "/opt", "/var/tmp", "/run", "/root", "/home", "/srv")]
    met = {name: refused(lambda name=name: (Path(name) / "probe").write_text("x")) for name in folders}  # type: ignore[misc]
    return is_read_only and "ALLOWED" not in met.values(), str(met)


def status_fields() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def identity(_: Config) -> Outcome:
    ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    return 0 not in ids, f"uid {os.getuid()}, gid {os.getgid()}, groups {os.getgroups()}"


def capabilities(_: Config) -> Outcome:
    found = {name: value for name, value in status_fields().items() if name.startswith("Cap")}
    return len(found) == 5 and all(int(value, 16) == 0 for value in found.values()), str(found)


def confinement(_: Config) -> Outcome:
    fields = status_fields()
    met = {name: fields.get(name, "?") for name in ("NoNewPrivs", "Seccomp", "Seccomp_filters")}
    # One filter is Docker's, one is ours; kernels before 5.9 do not count them.
    return met["NoNewPrivs"] == "1" and met["Seccomp"] == "2" and met["Seccomp_filters"] in ("?", "2", "3"), str(met)


def system_call(name: str, call: Callable[[], int]) -> Outcome:
    ctypes.set_errno(0)
    result = call()
    return result < 0, f"{name} {errno.errorcode.get(ctypes.get_errno(), '?') if result < 0 else 'ALLOWED'}"


def kernel_surface(_: Config) -> Outcome:
    """Only calls that do no harm where they are allowed."""
    met = [
        system_call("mount", lambda: LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
        system_call("unshare", lambda: LIBC.unshare(CLONE_NEWUSER)),
        system_call("io_uring", lambda: LIBC.syscall(425, 1, 0)),
        system_call("chroot", lambda: LIBC.chroot(b"/tmp")),
        system_call("setuid", lambda: LIBC.setuid(0)),
    ]
    for name, family, kind in (("vsock", AF_VSOCK, 1), ("packet", AF_PACKET, 3), ("alg", AF_ALG, 5), ("raw", 2, 3)):
        code = refused(lambda family=family, kind=kind: socket.socket(family, kind, 1 if family == 2 else 0))  # type: ignore[misc]
        met.append((code != "ALLOWED", f"{name} {code}"))
    return all(ok for ok, _ in met), ", ".join(text for _, text in met)


def masked_files(_: Config) -> Outcome:
    """That files of the kernel which tell or change something about the host are shut."""
    kernel = Path("/proc/sys/kernel")
    writes = (
        Path("/proc/sysrq-trigger"),
        kernel / "core_pattern",
        kernel / "hostname",
        Path("/sys/kernel/uevent_helper"),
    )
    met = {str(path): refused(lambda path=path: os.close(os.open(path, os.O_WRONLY))) for path in writes}  # type: ignore[misc]
    for path in (Path("/proc/kcore"), Path("/proc/timer_list"), Path("/proc/keys")):
        try:
            with path.open("rb") as file:
                met[str(path)] = "ALLOWED" if file.read(1) else "empty"
        except OSError as error:
            met[str(path)] = errno.errorcode.get(error.errno or 0, "?")
    firmware = Path("/sys/firmware")
    met["/sys/firmware"] = "ALLOWED" if firmware.is_dir() and any(firmware.iterdir()) else "empty"
    return "ALLOWED" not in met.values(), str(met)


def setuid_programs(_: Config) -> Outcome:
    """That a set-user-id program of the image does not gain root: looks at a `su` that waits for its password."""
    program = next((path for path in (Path("/usr/bin/su"), Path("/bin/su")) if path.exists()), None)
    if program is None:
        return True, "no set-user-id program to try"
    if not program.stat().st_mode & stat.S_ISUID:
        return True, f"{program} is not set-user-id"
    with subprocess.Popen([program, "-c", "true"], stdin=-1, stdout=-3, stderr=-3) as process:
        end, uids = time.monotonic() + 1.0, ""
        while time.monotonic() < end:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if lines[0].split()[1] == "su":
                uids = next(line for line in lines if line.startswith("Uid:"))
                break
        process.kill()
    return "0" not in uids.split()[1:], f"{program} runs with {uids or 'no uid seen (it ended at once)'}"


def limits(config: Config) -> Outcome:
    def read(*paths: str) -> str:
        return next((Path(path).read_text().strip() for path in paths if Path(path).exists()), "?")

    base = "/sys/fs/cgroup"
    pids = read(f"{base}/pids.max", f"{base}/pids/pids.max")
    memory = read(f"{base}/memory.max", f"{base}/memory/memory.limit_in_bytes")
    core = resource.getrlimit(resource.RLIMIT_CORE)[1]
    is_memory_set = memory.isdigit() and abs(int(memory) - config["memory_bytes"]) < 65_536
    return pids == str(config["pids"]) and is_memory_set and core == 0, f"pids {pids}, memory {memory}, core {core}"


def temporary_folder(_: Config) -> Outcome:
    script = Path("/tmp/probe.sh")
    script.write_text("#!/bin/sh\necho runs\n")
    script.chmod(0o755)
    said = subprocess.run([str(script)], capture_output=True, text=True, check=False).stdout.strip()
    return said == "runs", "programs in /tmp run" if said == "runs" else "a program in /tmp cannot be run"


def size_limit(config: Config) -> Outcome:
    """That workspace and /tmp together take no more than the limit (`loop`), or one file no more than it (`watch`)."""
    places = [Path("/workspace/fill"), Path("/tmp/fill")] if config["quota"] == "loop" else [Path("/workspace/fill")]
    chunk, written, met = b"x" * 1_000_000, 0, ""
    for place in places:
        try:
            with place.open("wb", buffering=0) as file:
                while written < 2 * config["disk_bytes"]:
                    written += file.write(chunk)
                    if place == places[0] and len(places) == 2 and written > config["disk_bytes"] // 2:
                        break
        except OSError as error:
            met = errno.errorcode.get(error.errno or 0, "?")
    for place in places:
        place.unlink(missing_ok=True)
    is_held = met in ("ENOSPC", "EFBIG", "EDQUOT") and written <= config["disk_bytes"]
    return is_held, f"{met or 'no error'} after {written / 1e6:.0f} of {config['disk_bytes'] / 1e6:.0f} MB"


def main() -> None:
    config: Config = json.loads(Path(__file__).with_name("probe.json").read_text())
    with ThreadPoolExecutor(max_workers=8) as pool:
        port = config["host_port"]
        waits = {
            "host_through_gateway": pool.submit(unreachable, [config["gateway"]], port),
            "host_through_docker0": pool.submit(unreachable, config["docker_addresses"], port),
            "host_addresses": pool.submit(unreachable, config["host_addresses"], port),
            "other_run": pool.submit(unreachable, config["other_run"], config["other_run_port"]),
            "outside": pool.submit(unreachable, config["outside"], 443),
            "no_way_out": pool.submit(no_way_out, config),
            "names": pool.submit(names, config),
        }
        results: dict[str, Outcome] = {name: wait.result() for name, wait in waits.items()}
    results |= dict(file_tree(config))
    for name, folder in config["read_only"].items():
        results[name] = cannot_write(folder)
    probes = [grader_answers, admin_routes, mounts, root_read_only, identity, capabilities, confinement]
    probes += [kernel_surface, masked_files, setuid_programs, limits, temporary_folder, size_limit]
    if place := config["llm_gateway"]:
        results["gateway_beyond"] = unreachable(place["beyond"], place["ports"][0])
        probes += [gateway_ports, gateway_routes]
    for probe in probes:
        results[probe.__name__] = probe(config)
    rows = [{"name": name, "ok": bool(ok), "detail": detail} for name, (ok, detail) in results.items()]
    sys.stdout.write("\nPROBE " + json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
