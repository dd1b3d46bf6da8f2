"""What an agent's container is given, and what its description refuses."""

import re
from pathlib import Path

import docker
import pytest

from harness.domain.specs import Limits
from harness.errors import PrerequisiteError, UsageError
from harness.sandbox import agent as agents
from harness.sandbox.agent import AgentContainerSpec, AgentLlm, command, environment
from harness.sandbox.disk import Quota, QuotaMode
from harness.sandbox.hardening import Isolation, Resources, gpu_requests, host_config
from harness.sandbox.mounts import bind_source
from harness.sandbox.networks import RunNetwork
from harness.sandbox.owner import current_owner


@pytest.fixture
def spec(tmp_path: Path) -> AgentContainerSpec:
    for name in ("agent", "meta", "model", "data", "fs/workspace", "fs/tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "agent/start.sh").write_text("true\n")
    return AgentContainerSpec(
        home_label="h",
        run_id="r1",
        owner=current_owner(),
        image="harness-agent:x",
        agent_folder=tmp_path / "agent",
        meta=tmp_path / "meta",
        model=tmp_path / "model",
        model_repo_id="tiny/arith",
        data=tmp_path / "data",
        quota=Quota(mode=QuotaMode.WATCH, folder=tmp_path, size_mb=100, uid=1000, gid=1000),
        network=RunNetwork(id="n", name="harness-r1", subnet="10.213.0.0/28"),
        limits=Limits(memory_mb=512, pids=99, shm_mb=64, cpus=1.5, log_mb=7),
        time_limit_s=60,
        task="arithmetic",
        grading_url="http://grader:5000/r/token",
        seed=3,
        cores=8,
    )


@pytest.fixture
def client():
    client = docker.DockerClient(base_url="unix:///nonexistent", version="1.41")
    yield client
    client.close()


def test_the_start_script_runs_under_a_dead_mans_switch(spec):
    launcher = ["python3", "-I", "-S", "/opt/launch/launch.py"]
    assert command(spec) == ["timeout", "-k", "15", "60", *launcher, "bash", "/opt/agent-folder/start.sh"]


def test_the_environment_is_the_contracts(spec):
    found = environment(spec)
    expected = {
        "TASK": "arithmetic",
        "BASE_MODEL": "tiny/arith",
        "WORKSPACE": "/workspace",
        "MODEL_PATH": "/workspace/models/tiny/arith",
        "DATA_PATH": "/workspace/data",
        "OUTPUT_DIR": "/workspace/output",
        "GRADING_SERVER_URL": "http://grader:5000/r/token",
        "RUN_ID": "r1",
        "SEED": "3",
        "HOME": "/workspace/.home",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    assert {name: found[name] for name in expected} == expected


def test_an_agents_own_variables_are_added_but_cannot_replace_the_contracts(spec):
    found = environment(spec.model_copy(update={"env_vars": {"STEPS": "5", "TASK": "other", "OMP_NUM_THREADS": "4"}}))
    assert (found["STEPS"], found["TASK"], found["OMP_NUM_THREADS"]) == ("5", "arithmetic", "4")


def test_every_flag_of_the_hardening_list_is_set(client, spec):
    config = agents._container_config(client, spec)
    host = config["host_config"]
    assert config["user"] == "1000:1000"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["PidsLimit"] == 99
    assert host["Memory"] == host["MemorySwap"] == 512_000_000
    assert host["ShmSize"] == 64_000_000
    assert host["NanoCpus"] == 1_500_000_000
    assert host["Init"] is True
    assert config["environment"]["TINI_KILL_PROCESS_GROUP"] == "1"
    assert host["IpcMode"] == "private"
    assert host["CgroupnsMode"] == "private"
    assert host["NetworkMode"] == "harness-r1"
    assert host["Dns"] == ["192.0.2.1"]
    assert host["ExtraHosts"] == ["grader:10.213.0.2"]
    assert host["LogConfig"] == {"Type": "local", "Config": {"max-size": "7m", "max-file": "2"}}
    limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
    assert limits["core"] == 0
    assert limits["nofile"] > 0
    assert limits["fsize"] == 100_000_000
    assert "Privileged" not in host
    assert not host.get("Binds")
    assert config["labels"]["harness.zone"] == "agent"
    assert config["healthcheck"] == {"test": ["NONE"]}


def test_without_a_proxy_nothing_points_outside(spec):
    found = agents.environment(spec)
    assert not {name for name in found if name.lower().endswith("_proxy")}
    assert found["HF_HUB_OFFLINE"] == found["TRANSFORMERS_OFFLINE"] == found["HF_DATASETS_OFFLINE"] == "1"


def test_the_proxy_is_told_under_every_name_and_grader_and_gateway_go_past_it(client, spec):
    url = "http://run:secret@gateway:8099"
    open_spec = spec.model_copy(update={"proxy_url": url, "env_vars": {"https_proxy": "http://other"}})
    found = agents.environment(open_spec)
    assert {found[name] for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")} == {url}
    assert found["NO_PROXY"] == found["no_proxy"] == "grader,gateway,localhost,127.0.0.1"
    assert found["HF_HUB_OFFLINE"] == "1"
    assert agents.environment(open_spec.model_copy(update={"has_hub": True}))["HF_HUB_OFFLINE"] == "0"
    assert "gateway:10." in str(agents._container_config(client, open_spec)["host_config"]["ExtraHosts"])


def test_only_workspace_and_tmp_are_writable_mounts(client, spec):
    mounts = agents._container_config(client, spec)["host_config"]["Mounts"]
    writable = {mount["Target"] for mount in mounts if not mount["ReadOnly"]}
    assert writable == {"/workspace", "/tmp"}
    assert {mount["Type"] for mount in mounts} == {"bind"}


def test_a_loop_quota_needs_no_limit_on_single_files(client, spec):
    quota = spec.quota.model_copy(update={"mode": QuotaMode.LOOP})
    host = agents._container_config(client, spec.model_copy(update={"quota": quota}))["host_config"]
    assert "fsize" not in {limit["Name"] for limit in host["Ulimits"]}


def test_gpus_are_asked_for_by_uuid():
    (request,) = gpu_requests(Isolation(gpus=("GPU-1", "GPU-2")))
    assert request["DeviceIDs"] == ["GPU-1", "GPU-2"]
    assert request["Count"] == 0
    (request,) = gpu_requests(Isolation(gpus=("GPU-1",), has_cdi_only=True))
    assert request["DeviceIDs"] == ["nvidia.com/gpu=GPU-1"]


def test_a_runtime_of_the_settings_is_used(client):
    config = host_config(client, Resources(memory_mb=10, pids=1), Isolation(runtime="runsc"), [])
    assert config["Runtime"] == "runsc"
    assert config["NetworkMode"] == "none"


@pytest.mark.parametrize("start", ["missing.sh", "../start.sh", "/etc/passwd"])
def test_a_start_script_outside_of_the_folder_or_missing_is_refused(spec, start):
    with pytest.raises(UsageError, match="has no"):
        agents._check_start(spec.model_copy(update={"start": start}))


def test_an_unreadable_start_script_is_refused_with_the_fix(spec):
    (spec.agent_folder / "start.sh").chmod(0o600)
    if (spec.agent_folder / "start.sh").stat().st_uid == spec.quota.uid:
        pytest.skip("this user is the agents' own")
    with pytest.raises(PrerequisiteError, match=r"chmod -R a\+rX"):
        agents._check_start(spec)


def test_a_link_is_no_mount_source(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(PrerequisiteError, match="symbolic link"):
        bind_source(tmp_path / "link")


def test_a_missing_folder_is_no_mount_source(tmp_path):
    with pytest.raises(PrerequisiteError, match="does not exist"):
        bind_source(tmp_path / "missing")


def test_a_folder_with_a_mount_below_is_no_mount_source():
    with pytest.raises(PrerequisiteError, match="mounted below it"):
        bind_source(Path("/"))


def test_every_variable_is_described(spec):
    llm = AgentLlm(provider="openai", model="m", token="t")
    reaching = spec.model_copy(update={"llm": llm, "proxy_url": "http://gateway:8099"})
    contract = (Path(__file__).resolve().parents[3] / "docs" / "contract.md").read_text()
    described = set(re.findall(r"`([A-Z][A-Z_]+)`", contract))
    assert {name.upper() for name in environment(reaching)} <= described
