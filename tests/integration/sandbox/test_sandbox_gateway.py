"""The gateway of a run on real Docker: who reaches it, what it reaches, what it keeps, and that nothing is left."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from built_images import built_image
from docker import DockerClient
from pydantic import SecretStr
from served import wait_until

from harness.domain.llm import LlmBudget, LlmRun
from harness.errors import InfrastructureError, ServiceUnavailable
from harness.home import Home
from harness.runner.gateway_client import GatewayClient
from harness.sandbox.agent import AgentLlm
from harness.sandbox.egress import egress_name, egress_network, remove_egress
from harness.sandbox.engine import labels
from harness.sandbox.gateway_probe import ask_provider
from harness.sandbox.gateway_service import GatewaySpec, UpstreamSpec, find_gateway, start_gateway
from harness.sandbox.networks import RunNetwork, create_run_network
from harness.sandbox.owner import current_owner
from harness.sandbox.reaper import list_objects, remove_run_objects

pytestmark = pytest.mark.docker
KEY = "sk-real-provider-key-0123456789abcdef"
NETWORK_RANGE = "10.214.16.0/20"
ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
}


class Provider:
    """A server of this host, on all addresses, as a user's own LLM is; `keys` are those that it was shown."""

    def __init__(self) -> None:
        provider = self
        self.keys: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.keys.append(str(self.headers.get("authorization")))
                is_known = self.headers.get("authorization") == f"Bearer {KEY}"
                self.reply(200 if is_known else 401, {"data": [{"id": "gpt-5"}]} if is_known else {"error": {}})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                provider.keys.append(str(self.headers.get("authorization")))
                self.reply(200, ANSWER)

            def reply(self, status: int, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Not into the tests' output."""

        self.server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self.url = f"http://localhost:{self.server.server_address[1]}/v1"


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(5)


@pytest.fixture(scope="module")
def gateway_image() -> str:
    return built_image("gateway")


class Stage:
    """Starts gateways of runs of one home."""

    def __init__(self, client: DockerClient, home: Home, image: str, url: str) -> None:
        self.client, self.home, self.image, self.url = client, home, image, url
        self.networks: dict[str, RunNetwork] = {}

    def spec(self, run_id: str, **changes: Any) -> GatewaySpec:
        upstream = UpstreamSpec(provider="openai", url=self.url, key=SecretStr(KEY))
        spec = GatewaySpec(run_id=run_id, owner=current_owner(), image=self.image, upstream=upstream)
        return spec.model_copy(update=changes)

    def network(self, run_id: str) -> RunNetwork:
        if run_id not in self.networks:
            self.networks[run_id] = create_run_network(self.client, self.home, run_id, NETWORK_RANGE)
        return self.networks[run_id]

    def start(self, run_id: str, **changes: Any) -> str:
        return start_gateway(self.client, self.home, self.spec(run_id, **changes), self.network(run_id), 60)

    def admin(self, run_id: str) -> GatewayClient:
        return GatewayClient(self.home.gateway_dir(run_id) / "s.sock", run_id)

    def open(self, run_id: str, **changes: Any) -> None:
        values: dict[str, Any] = {
            "run_id": run_id,
            "token_sha256": hashlib.sha256(token(run_id).encode()).hexdigest(),
            "subnets": (self.network(run_id).subnet,),
            "budget": LlmBudget(requests=50),
            **changes,
        }
        self.admin(run_id).open_run(LlmRun(**values))

    def run_in(self, run_id: str, image: str, script: str, **host: Any) -> str:
        """What a container beside the run's agent says, on the run's network."""
        network = self.network(run_id)
        options = self.client.api.create_host_config(network_mode=network.name, **host)
        container = self.client.api.create_container(
            image,
            ["python3", "-c", script],
            entrypoint=[],
            user="0" if host.get("cap_add") else "1000",
            labels=labels(self.home.label, run_id, "test"),
            host_config=options,
        )["Id"]
        try:
            self.client.api.start(container)
            self.client.api.wait(container, timeout=90)
            return str(self.client.api.logs(container).decode())
        finally:
            self.client.api.remove_container(container, force=True)


def token(run_id: str) -> str:
    return f"token-of-{run_id}-0123456789abcdef"


@pytest.fixture
def stage(client: DockerClient, home: Home, gateway_image: str, provider: Provider) -> Iterator[Stage]:
    found = Stage(client, home, gateway_image, provider.url)
    yield found
    for run_id in found.networks:
        remove_run_objects(client, home, run_id)
    remove_egress(client, home)


CALL = """
import json, urllib.error, urllib.request
request = urllib.request.Request("http://{address}:8098/v1/chat/completions", method="POST",
    data=json.dumps({{"model": "gpt-5", "messages": [{{"role": "user", "content": "hi"}}]}}).encode(),
    headers={{"authorization": "Bearer {token}", "content-type": "application/json"}})
try:
    print(urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print("no connection", error)
"""


def call(address: str, run_id: str) -> str:
    return CALL.format(address=address, token=token(run_id))


def test_a_run_calls_its_llm_through_its_gateway_and_nothing_is_left(
    client: DockerClient, home: Home, stage: Stage, provider: Provider
) -> None:
    container = stage.start("one")
    stage.open("one")
    attributes = json.dumps(client.api.inspect_container(container))
    assert KEY not in attributes + client.api.logs(container).decode()
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "200"
    assert provider.keys == [f"Bearer {KEY}"]
    (row,) = stage.admin("one").calls(0)
    assert (row.model, row.input_tokens, row.output_tokens, row.http_status) == ("gpt-5", 100, 20, 200)
    assert stage.admin("one").usage().requests == 1
    assert stage.admin("one").calls(1) == ()
    assert not remove_egress(client, home)  # somebody is on it
    assert not stage.admin("one").close_run().is_open
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "401"
    remove_run_objects(client, home, "one")
    stage.networks.clear()
    assert list_objects(client, home) == {}
    assert not home.gateway_config_dir("one").exists()
    assert remove_egress(client, home)
    assert client.api.networks(names=[egress_name(home)]) == []


def test_its_container_is_hardened_and_no_router(client: DockerClient, stage: Stage) -> None:
    container = client.containers.get(stage.start("one"))
    config = container.attrs["HostConfig"]
    assert config["ReadonlyRootfs"]
    assert config["CapDrop"] == ["ALL"]
    assert config["RestartPolicy"]["Name"] == "on-failure"
    say = container.exec_run
    assert say(["id", "-u"]).output.strip() != b"0"
    assert say(["cat", "/proc/sys/net/ipv4/ip_forward"]).output.strip() == b"0"
    # Two addresses, and agents are answered on one of them.
    listening = set(say(["python", "-c", LISTENING]).output.decode().split())
    address = stage.network("one").llm_gateway
    assert f"{address}:8098" in listening
    assert listening <= {f"{address}:8098", f"{address}:8099"}
    routes = say(["cat", "/proc/net/route"]).output.decode().splitlines()
    (default,) = [line.split() for line in routes if line.split()[1] == "00000000"]
    egress = client.api.inspect_network(egress_name(stage.home))["IPAM"]["Config"][0]["Gateway"]
    assert bytes.fromhex(default[2])[::-1] == bytes(int(part) for part in egress.split("."))


LISTENING = """
import socket
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    fields = line.split()
    address, port = fields[1].split(":")
    address = socket.inet_ntoa(bytes.fromhex(address)[::-1])
    if fields[3] == "0A" and not address.startswith("127."):
        print(f"{address}:{int(port, 16)}")
"""


def test_the_token_of_one_run_is_worth_nothing_in_another(stage: Stage) -> None:
    for run_id in ("one", "two"):
        stage.start(run_id)
        stage.open(run_id)
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "200"
    assert stage.run_in("two", stage.image, call("gateway", "two")).strip() == "200"
    assert stage.run_in("two", stage.image, call("gateway", "one")).strip() == "401"
    address = stage.network("one").llm_gateway
    assert "no connection" in stage.run_in("two", stage.image, call(address, "one"))


# Also as root with NET_ADMIN, which no agent is: the gateway must not carry packets for anybody.
def test_an_agent_cannot_use_it_as_a_way_out(client: DockerClient, stage: Stage, image: str) -> None:
    for run_id in ("one", "two"):
        stage.start(run_id)
    egress = client.api.inspect_network(egress_name(stage.home))
    outside = [egress["IPAM"]["Config"][0]["Gateway"]]
    outside += [member["IPv4Address"].split("/")[0] for member in egress["Containers"].values()]
    outside += [stage.network("two").llm_gateway, "172.17.0.1", "1.1.1.1"]
    assert len(outside) == 6
    via = stage.network("one").llm_gateway
    port = int(stage.url.rsplit(":", 1)[1].split("/")[0])
    script = TRY.format(via=via, outside=outside, ports=[8098, 8099, port])
    said = stage.run_in("one", image, script, cap_add=["NET_ADMIN"])
    assert "route set" in said, said
    assert "REACHED" not in said, said
    plain = stage.run_in("one", image, script)
    assert "REACHED" not in plain, plain


TRY = """
import fcntl, socket, struct
from concurrent.futures import ThreadPoolExecutor
def address(text):
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
# SIOCADDRT: a default route by way of the gateway, as `ip route add` would set one.
entry = bytes(8) + address("0.0.0.0") + address("{via}") + address("0.0.0.0") + struct.pack("=H", 3) + bytes(64)
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, 0x890B, entry)
    print("route set")
except OSError as error:
    print("no route", error)
source_route = bytes([137, 7, 4]) + socket.inet_aton("{via}") + bytes(1)
def attempt(target, port, options):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
        link.settimeout(1)
        try:
            if options:
                link.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, options)
            link.connect((target, port))
            print("REACHED", target, port, bool(options))
        except OSError as error:
            print("no", target, port, bool(options), error)
with ThreadPoolExecutor(16) as pool:
    for target in {outside}:
        for port in {ports}:
            for options in (b"", source_route):
                pool.submit(attempt, target, port, options)
"""


def test_a_gateway_that_was_killed_goes_on_with_what_was_used(client: DockerClient, stage: Stage) -> None:
    container = stage.start("one")
    stage.open("one", budget=LlmBudget(requests=2))
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "200"
    pid = client.api.inspect_container(container)["State"]["Pid"]
    client.containers.get(container).exec_run(["sh", "-c", "kill -9 -1"])
    wait_until(lambda: client.api.inspect_container(container)["State"]["Pid"] not in (0, pid), 30)
    wait_until(lambda: answers(stage.admin("one")), 30)
    assert stage.admin("one").usage().requests == 1
    assert find_gateway(client, stage.home, "one") == container
    # By hand: Docker then leaves it dead, and the harness starts another one.
    client.api.kill(container)
    wait_until(lambda: not client.api.inspect_container(container)["State"]["Running"], 30)
    assert find_gateway(client, stage.home, "one") is None
    stage.start("one")
    stage.open("one", budget=LlmBudget(requests=2), token_sha256=hashlib.sha256(b"new").hexdigest())
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "401"
    stage.open("one", budget=LlmBudget(requests=2))
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "200"
    assert stage.run_in("one", stage.image, call("gateway", "one")).strip() == "402"
    assert [event.kind for event in stage.admin("one").events(0)] == ["over_budget"]


def answers(admin: GatewayClient) -> bool:
    try:
        admin.usage()
    except (ServiceUnavailable, InfrastructureError):
        return False
    return True


def test_one_that_cannot_start_says_why_and_is_not_left(client: DockerClient, stage: Stage, tmp_path: Any) -> None:
    (tmp_path / "prices.yaml").write_text("models: {}\n")
    with pytest.raises(ServiceUnavailable, match=r"prices\.yaml"):
        stage.start("one", prices=tmp_path / "prices.yaml")
    assert find_gateway(client, stage.home, "one") is None
    assert set(list_objects(client, stage.home)["one"].containers) == set()


def test_two_that_begin_at_once_share_one_way_out(client: DockerClient, home: Home) -> None:
    ids: list[str] = []

    def make() -> None:
        with egress_network(client, home) as network:
            ids.append(network)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    try:
        assert len(ids) == 6
        assert len(set(ids)) == 1
    finally:
        remove_egress(client, home)


def test_the_probe_tells_models_and_a_key_that_is_refused(
    client: DockerClient, home: Home, stage: Stage, provider: Provider
) -> None:
    answer = ask_provider(client, home, stage.spec("one"))
    assert (answer.status, answer.models) == ("ok", ("gpt-5",))
    wrong = UpstreamSpec(provider="openai", url=stage.url, key=SecretStr("sk-wrong"))
    answer = ask_provider(client, home, stage.spec("one", upstream=wrong))
    assert answer.status == "key_refused"
    assert "sk-wrong" not in answer.error
    provider.server.shutdown()
    provider.server.server_close()
    assert ask_provider(client, home, stage.spec("one")).status == "unreachable"
    assert list_objects(client, home) == {}


def test_an_agent_finds_it_under_its_name(
    client: DockerClient, stage: Stage, launch: Callable[..., Any], home: Home
) -> None:
    script = (
        'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/models\n'
    )
    llm = AgentLlm(provider="openai", model="gpt-5", token=token("run-a"))
    run = launch("sleep 5\n" + script, llm=llm)
    stage.networks["run-a"] = run.spec.network
    stage.start("run-a")
    stage.open("run-a", models=("gpt-5",))
    client.api.wait(run.container, timeout=60)
    assert client.api.logs(run.container).decode().strip() == "200"
