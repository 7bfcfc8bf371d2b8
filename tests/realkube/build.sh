#!/usr/bin/env bash
# Builds the real etcd and Kubernetes that the tests start, once per content of go.sum and the mains, into
# .cache/realkube/<key>/, and points .cache/realkube/bin at it. Cold about 6 minutes on 2 cores, warm seconds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/realkube
kubernetes_version=v1.37.2

cd "$here"
key=$(cat go.mod go.sum build.sh cmd/*/*.go allocator/* | sha256sum | cut -c1-16)
mkdir -p "$cache"

# One build at a time: a second one waits here and then finds the first one's result.
exec 9>"$cache/build.lock"
if command -v flock >/dev/null && ! flock -n 9; then
  echo "realkube: another build is running; waiting for it"
  flock 9
fi

ready() {
  for program in kube etcd kubelet-oracle gpu-allocator; do [ -x "$cache/$key/$program" ] || return 1; done
  [ -e "$cache/$key/protos/podresources.proto" ]
}

if ! ready; then
  bash "$here/../../.ci/compiler"
  command -v go >/dev/null || { echo "realkube: no go here; the real control plane is built with Go 1.26 or newer" >&2; exit 1; }
  echo "realkube: building Kubernetes $kubernetes_version and etcd from Go modules (about 6 minutes when nothing is cached)"
  started=$SECONDS
  work=$cache/$key.partial
  rm -rf "$work"
  mkdir -p "$work"
  (while sleep 20 >/dev/null 2>&1; do echo "realkube: still building, $((SECONDS - started)) s"; done) 9>&- &
  ticker=$!
  trap 'kill $ticker 2>/dev/null || true' EXIT
  minor=${kubernetes_version#v1.}
  stamp="-X k8s.io/component-base/version.gitVersion=$kubernetes_version -X k8s.io/component-base/version.gitMajor=1"
  stamp="$stamp -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
  CGO_ENABLED=0 GOTOOLCHAIN=local GOWORK=off \
    go build -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w $stamp" -o "$work/" ./cmd/... 9>&-
  dir() { GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' "$1" 9>&-; }
  mkdir "$work/protos"
  cp "$(dir k8s.io/cri-api)/pkg/apis/runtime/v1/api.proto" "$work/protos/cri.proto"
  cp "$(dir k8s.io/kubelet)/pkg/apis/deviceplugin/v1beta1/api.proto" "$work/protos/deviceplugin.proto"
  cp "$(dir k8s.io/kubelet)/pkg/apis/podresources/v1/api.proto" "$work/protos/podresources.proto"
  chmod -R u+w "$work/protos"
  # NVIDIA's allocator links against the driver's library by name, hence with C.
  (cd allocator && CGO_ENABLED=1 GOTOOLCHAIN=local GOWORK=off \
    go build -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w" -o "$work/gpu-allocator" . 9>&-)
  rm -rf "${cache:?}/$key"
  mv "$work" "$cache/$key"
  echo "realkube: built in $((SECONDS - started)) s"
fi

# A folder of this name may be there from a build by hand.
if [ -d "$cache/bin" ] && ! [ -L "$cache/bin" ]; then rm -rf "$cache/bin"; fi
ln -sfn "$key" "$cache/bin"
