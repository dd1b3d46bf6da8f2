"""Attempts on the network: the host, the outside, another run, other doors of the grader."""

import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from grader import HOST, PORT, PREFIX, Answer, call
from places import refused

CONNECT_S = 2.0
SCANNED = (*range(1, 1025), 2375, 2376, 3306, 4243, 4999, 5001, 5432, 6379, 8000, 8080, 8443, 8888, 9000, 9090, 10250)
SIOCADDRT, LOOSE_SOURCE_ROUTE = 0x890B, 0x83
UDP_TEXT = b"harness end-to-end test"
UNKNOWN_TOKEN = "A" * 43


def connects(address: str, port: int) -> str:
    """CONNECTED, or the error that was met; a refusal would mean that packets arrive."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as link:
            link.settimeout(CONNECT_S)
            link.connect((address, port))
    except TimeoutError:
        return "timed out"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return "CONNECTED"


def reach(addresses: Iterable[str], ports: Iterable[int]) -> Answer:
    """A TCP connection and a datagram to each port of each address."""
    pairs = [(address, port) for address in addresses for port in ports]
    for address, port in pairs:
        _send(address, port)
    with ThreadPoolExecutor(max_workers=64) as pool:
        met = pool.map(lambda pair: connects(*pair), pairs)
    return {"met": {f"{address} {port}": said for (address, port), said in zip(pairs, met, strict=True)}}


def _send(address: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        try:
            link.sendto(UDP_TEXT, (address, port))
        except OSError:
            return


def gateway() -> str:
    """The first address of the run's network; the grader has the second."""
    (number,) = struct.unpack("!I", socket.inet_aton(socket.gethostbyname(HOST)))
    return socket.inet_ntoa(struct.pack("!I", number - 1))


def reach_host(targets: Answer) -> Answer:
    return reach(targets["host"], [targets["host_port"]])


def reach_gateway(targets: Answer) -> Answer:
    return reach([gateway()], [targets["host_port"], 22, 2375])


def reach_docker0(targets: Answer) -> Answer:
    return reach(targets["docker"], [targets["host_port"]])


def reach_outside(targets: Answer) -> Answer:
    return reach(targets["outside"], [53, 80, 443])


def reach_other_run(targets: Answer) -> Answer:
    other = targets["other"]
    answer = reach([other["agent"]], [other["port"]])
    for name in ("grader", "core"):
        answer["met"].update(reach([other[name]], [PORT])["met"])
    return answer


def reach_by_source_route(targets: Answer) -> Answer:
    """Asks the grader, which is in both networks, to pass packets on."""
    via, to = socket.inet_aton(socket.gethostbyname(HOST)), targets["other"]["agent"]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
        link.settimeout(CONNECT_S)
        options = struct.pack("!BBBB", 1, LOOSE_SOURCE_ROUTE, 7, 4) + via
        is_set = refused(lambda: link.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, options))
        try:
            link.connect((to, targets["other"]["port"]))
            met = "CONNECTED"
        except OSError as error:
            met = errno.errorcode.get(error.errno or 0, "timed out")
    return {"met": {f"{to} by the grader (option {is_set})": met}}


def change_routes(targets: Answer) -> Answer:
    """A route to the other run, a raw socket, a packet socket, netlink writes: all need capabilities."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        # The capability is asked for before the route is looked at.
        met = {"add_route": refused(lambda: fcntl.ioctl(link, SIOCADDRT, bytes(120)))}
    met["raw"] = refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close())
    met["packet"] = refused(lambda: socket.socket(17, socket.SOCK_RAW, 3).close())
    return {"met": met}


def resolve_names(targets: Answer) -> Answer:
    """Names below the reserved `.invalid`: no resolver of the host's may be asked."""
    begin = time.monotonic()
    try:
        found = [entry[4][0] for entry in socket.getaddrinfo("harness-test.invalid", 80)]
    except OSError:
        found = []
    return {"found": found, "seconds": time.monotonic() - begin}


def scan_grader(targets: Answer) -> Answer:
    """Every other door of the grader's container."""
    with ThreadPoolExecutor(max_workers=32) as pool:
        met = pool.map(lambda port: connects(HOST, port), SCANNED)
    return {"open": [port for port, said in zip(SCANNED, met, strict=True) if said == "CONNECTED"]}


def call_admin_routes(targets: Answer) -> Answer:
    """The admin application's routes, at the root, below the token, and dressed up."""
    run = os.environ["RUN_ID"]
    routes = [("GET", "/runs"), ("POST", "/runs"), ("GET", "/stats"), ("POST", "/import"), ("POST", "/set_baseline")]
    routes += [("POST", f"/runs/{run}/{verb}") for verb in ("finish", "close", "clock", "baseline", "requeue", "phase")]
    routes += [("GET", f"/runs/{run}"), ("POST", f"/runs/{run}/events"), ("POST", f"/runs/{run}/samples")]
    headers = {
        "Host": "admin",
        "X-Forwarded-For": "127.0.0.1",
        "X-Forwarded-Host": "admin",
        "Authorization": "Bearer x",
    }
    answers = {}
    for method, path in routes:
        body = {} if method == "POST" else None
        for prefix in ("", PREFIX, "/admin", "/r/%2e%2e", PREFIX + "/.."):
            answers[f"{method} {prefix}{path}"] = call(method, path, body, prefix=prefix, headers=headers)
    return {"answers": answers}


def use_other_token(targets: Answer) -> Answer:
    """Another run's token, which was stolen, by this run's door to the grader; beside a token that nobody has."""
    other = targets["other"]
    headers = {name: other["agent"] for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP")}
    body = {"model_path": "output/honest"}
    answers = {}
    for name, token in (("stolen", other["token"]), ("unknown", UNKNOWN_TOKEN)):
        for method, path in (("GET", "/time"), ("GET", "/submissions"), ("POST", "/submit"), ("POST", "/validate")):
            prefix = f"/r/{token}"
            answers[f"{name} {method} {path}"] = call(
                method, path, body if method == "POST" else None, prefix=prefix, headers=headers
            )
    return {"answers": answers}
