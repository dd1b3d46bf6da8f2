#!/bin/sh
# Makes a base image from this host's own files, for a host without a registry and a package index. Every image of the harness can
# then be built on it: none installs anything, all take their Python packages from the folders that are named here.
#   scripts/host_base.sh TAG SITE...       SITE: a folder of Python packages, the first one wins
#   EXCLUDE="jax* cmake*" scripts/host_base.sh harness-host:local /opt/extra /opt/venv/lib/python3.12/site-packages
# The packages must fit /usr/bin/python3 (3.11 or newer, with venv). Then: HARNESS_BASE_IMAGE=TAG harness images
set -eu

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $1"; say "  fix: $2"; exit 3; }

[ $# -ge 2 ] || fail "usage: $0 TAG SITE..." "name a tag and at least one folder of Python packages"
tag=$1
shift
docker info > /dev/null 2>&1 || fail "no Docker Engine answers" "start it"
/usr/bin/python3 -c 'import sys, venv; assert sys.version_info >= (3, 11)' || fail "/usr/bin/python3 is too old, or has no venv" "install python3-venv"
for program in curl git ps update-ca-certificates useradd; do
    command -v "$program" > /dev/null || fail "$program is not here, and images need it" "install it"
done

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
packages=opt/base-packages
pth=$(/usr/bin/python3 -c 'import site; print(site.getsitepackages()[0].lstrip("/"))')
mkdir -p "$stage/etc" "$stage/tmp" "$stage/var/tmp" "$stage/root" "$stage/run"
chmod 1777 "$stage/tmp" "$stage/var/tmp"
# Ordinary users of this host stay here: 1000 is the agent's number in an image.
for file in passwd group; do awk -F: '$3 < 1000 || $3 == 65534' "/etc/$file" > "$stage/etc/$file"; done

set -f
# Packages: where they lie here -> below /opt/base-packages. S: a link's target stays as it is.
arguments="" number=0
for site in "$@"; do
    [ -d "$site" ] || fail "$site is no folder" "name a folder of Python packages"
    path=$(realpath "$site")
    path=${path#/}
    # The name `site-packages` matters: dill, and with it `datasets`, takes modules elsewhere for the user's own and pickles them whole.
    echo "/$packages/$number/site-packages" >> "$stage/base-packages.pth"
    arguments="$arguments --transform=s,^$path(/|\$),$packages/$number/site-packages\1,xS $path"
    for pattern in ${EXCLUDE:-}; do arguments="--exclude=$path/$pattern $arguments"; done
    number=$((number + 1))
done
for path in bin lib lib64 sbin usr etc/ld.so.cache etc/ld.so.conf etc/ld.so.conf.d etc/ssl etc/ca-certificates etc/ca-certificates.conf \
    etc/alternatives etc/os-release etc/login.defs etc/default etc/skel etc/nsswitch.conf etc/debian_version; do
    if [ -e "/$path" ]; then arguments="$arguments $path"; fi
done

# shellcheck disable=SC2086
tar -C / -c --exclude=usr/share/doc --exclude=usr/share/man --exclude=usr/share/locale --exclude=usr/src --exclude=usr/lib/modules \
    --exclude='usr/local/cuda*' --exclude=usr/local/nvidia --exclude='usr/local/lib/python3*' --exclude='usr/lib/python3*/dist-packages/*' \
    --transform="s|^base-packages.pth|$pth/base-packages.pth|" \
    $arguments -C "$stage" --no-recursion etc/passwd etc/group base-packages.pth tmp var/tmp root run \
    | docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$tag" > /dev/null
say "$tag is there: HARNESS_BASE_IMAGE=$tag harness images"
