#!/bin/sh
# Sets up what this machine lacks to run the harness, from Debian's or Ubuntu's own packages; quick when nothing is lacking.
#   scripts/setup_host.sh         asks before it installs
#   YES=1 scripts/setup_host.sh   does not ask
set -eu

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $1"; [ -z "${2:-}" ] || say "  fix: $2"; exit 3; }
has() { command -v "$1" > /dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif has sudo; then sudo "$@"; else return 127; fi
}

engine_answers() {
    if [ -n "${DOCKER_HOST:-}" ]; then return 0; fi # somebody else's engine: `harness` says if it does not answer
    python3 - << 'PYTHON' 2> /dev/null
import socket
link = socket.socket(socket.AF_UNIX)
link.settimeout(5)
link.connect("/var/run/docker.sock")
link.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
raise SystemExit(b"200 OK" not in link.recv(4096))
PYTHON
}

has_compose() {
    if has docker-compose; then return 0; fi
    has docker && docker compose version 2> /dev/null | grep -qi 'compose version'
}

in_archive() { apt-cache show "$1" > /dev/null 2>&1; }

# The first of some packages that this release has.
first_of() {
    for package in "$@"; do
        if in_archive "$package"; then echo "$package"; return; fi
    done
    fail "none of these packages exists here: $*" "see what your release calls it, install it, and repeat"
}

what_lacks() {
    if ! has dockerd && [ -z "${DOCKER_HOST:-}" ] && ! engine_answers; then
        echo engine
        # Where the kernel enforces AppArmor, containers do not start without its parser.
        if grep -qs Y /sys/module/apparmor/parameters/enabled && ! has apparmor_parser; then echo apparmor; fi
        if [ ! -d /run/systemd/system ] && [ -z "$(ls -A /sys/fs/cgroup 2> /dev/null)" ]; then echo cgroupfs-mount; fi
    fi
    has_compose || echo compose
    python3 -c 'import ensurepip, venv' 2> /dev/null || echo python3-venv
    has mkfs.ext4 || [ -x /sbin/mkfs.ext4 ] || echo e2fsprogs
    has sqlite3 || echo sqlite3
    has mmdebstrap || echo mmdebstrap
    has make || echo make
    has git || echo git
    has curl || echo curl
}

install_packages() {
    lacking=$1
    has apt-get || fail "this is no Debian or Ubuntu; missing: $(echo $lacking)" "install these by your system's means and repeat"
    if [ "${YES:-0}" != 1 ]; then
        [ -t 0 ] || fail "missing on this machine: $(echo $lacking)" "repeat with YES=1 to have them installed"
        printf 'Missing on this machine: %s. Install them with apt-get? [y/N] ' "$(echo $lacking)" >&2
        read -r answer
        case $answer in [yY]*) ;; *) fail "not installed" "install them yourself, or answer y" ;; esac
    fi
    as_root true || fail "installing packages needs root" "run this as root, or install sudo"
    say "installing: $(echo $lacking)"
    log=$(mktemp)
    # A refusal shows the log's end: apt's words are the only useful ones then.
    if ! { as_root apt-get -o Acquire::Retries=3 update && apt_install $lacking; } > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "apt-get failed (whole log: $log)" "mend what the lines above say, and repeat"
    fi
    rm -f "$log"
}

apt_install() {
    packages=""
    for name in "$@"; do
        case $name in
            # Newer releases have the engine's command line in a package of its own.
            engine) packages="$packages docker.io"; if in_archive docker-cli; then packages="$packages docker-cli"; fi ;;
            compose) packages="$packages $(first_of docker-compose-v2 docker-compose)" ;;
            mmdebstrap)
                packages="$packages mmdebstrap"
                if in_archive debian-archive-keyring; then packages="$packages debian-archive-keyring"; fi ;;
            *) packages="$packages $name" ;;
        esac
    done
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages
}

# Waits for so many half seconds, and no longer than the process (if one is named) lives.
await_engine() {
    tries=0
    until engine_answers; do
        tries=$((tries + 1))
        [ "$tries" -lt "$1" ] || return 1
        if [ -n "${2:-}" ] && [ ! -d "/proc/$2" ]; then return 1; fi
        sleep 0.5
    done
}

# What a killed engine left: its number may belong to another process by now, and dockerd would wait for that one.
drop_stale_pid_files() {
    for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
        [ -f "$file" ] || continue
        case $(cat "/proc/$(cat "$file")/comm" 2> /dev/null) in dockerd | containerd) ;; *) as_root rm -f "$file" ;; esac
    done
}

start_engine() {
    if [ "$(id -u)" != 0 ] && [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
        fail "Docker runs, but this user may not use it" "sudo usermod -aG docker $(id -un), then log in again"
    fi
    say "starting the Docker Engine"
    drop_stale_pid_files
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker > /dev/null 2>&1 || true
    elif has service; then
        as_root service docker start > /dev/null 2>&1 || true
    fi
    if await_engine 20; then return; fi
    # No service manager (a container, a minimal machine): by hand, in a session of its own. dockerd keeps /var/run/docker.pid.
    pid=$(as_root sh -c 'setsid dockerd > /var/log/dockerd.log 2>&1 < /dev/null & echo $!') ||
        fail "starting dockerd needs root" "start Docker as root, and repeat"
    await_engine 120 "$pid" || {
        tail -n 20 /var/log/dockerd.log >&2 || true
        fail "dockerd does not come up (whole log: /var/log/dockerd.log)" "mend what the lines above say, and repeat"
    }
}

has python3 || fail "python3 is missing" "apt-get install python3 python3-venv"
lacking=$(what_lacks)
if [ -n "$lacking" ]; then install_packages "$lacking"; fi
if ! engine_answers; then start_engine; fi
if [ -e /dev/nvidiactl ] && ! has nvidia-container-runtime && ! has nvidia-ctk; then
    say "note: this machine has NVIDIA GPUs, but Docker cannot hand them out: install nvidia-container-toolkit"
fi
