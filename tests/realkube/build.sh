#!/usr/bin/env bash
# Builds the real etcd and Kubernetes that the tests start, once per content of go.sum and the mains, into
# .cache/realkube/<key>/, and points .cache/realkube/bin at it. Cold about 6 minutes on 2 cores, warm seconds.
# Another minor, named by ATOLL_KUBERNETES=v1.34, is built from its modules in versions/ and found in bin-v1.34.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/realkube
minor=${ATOLL_KUBERNETES:-}
cd "$here"

# Only Kubernetes differs: etcd and NVIDIA's allocator are those of the default version, beside every Kubernetes.
modules=go.mod bin=bin tags=
if [ -n "$minor" ]; then modules=versions/$minor.mod bin=bin-$minor tags=kubernetes_${minor//./_}; fi
if ! [ -e "$modules" ]; then
  echo "realkube: no Kubernetes $minor here; there are $(ls versions | sed -n 's/\.mod$//p' | tr '\n' ' ')" >&2
  exit 2
fi
kubernetes_version=$(sed -n 's|^\tk8s.io/kubernetes ||p' "$modules")
key=$(cat "$modules" "${modules%.mod}.sum" go.mod go.sum build.sh cmd/*/*.go allocator/* | sha256sum | cut -c1-16)
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
  export GOTOOLCHAIN=local GOWORK=off
  compile() { go build -mod=readonly -buildvcs=false -trimpath "$@" 9>&-; }
  of_minor=${kubernetes_version#v1.}
  stamp="-X k8s.io/component-base/version.gitVersion=$kubernetes_version -X k8s.io/component-base/version.gitMajor=1"
  stamp="$stamp -X k8s.io/component-base/version.gitMinor=${of_minor%%.*}"
  CGO_ENABLED=0 compile -modfile="$modules" -tags "$tags" -ldflags "-s -w $stamp" -o "$work/" ./cmd/kube ./cmd/kubelet-oracle
  CGO_ENABLED=0 compile -ldflags "-s -w $stamp" -o "$work/" ./cmd/etcd
  dir() { GOFLAGS=-mod=readonly go list -modfile="$modules" -m -f '{{.Dir}}' "$1" 9>&-; }
  mkdir "$work/protos"
  cp "$(dir k8s.io/cri-api)/pkg/apis/runtime/v1/api.proto" "$work/protos/cri.proto"
  cp "$(dir k8s.io/kubelet)/pkg/apis/deviceplugin/v1beta1/api.proto" "$work/protos/deviceplugin.proto"
  cp "$(dir k8s.io/kubelet)/pkg/apis/podresources/v1/api.proto" "$work/protos/podresources.proto"
  chmod -R u+w "$work/protos"
  # NVIDIA's allocator links against the driver's library by name, hence with C.
  (cd allocator && CGO_ENABLED=1 compile -ldflags "-s -w" -o "$work/gpu-allocator" .)
  rm -rf "${cache:?}/$key"
  mv "$work" "$cache/$key"
  echo "realkube: built in $((SECONDS - started)) s"
fi

# A folder of this name may be there from a build by hand.
if [ -d "$cache/$bin" ] && ! [ -L "$cache/$bin" ]; then rm -rf "${cache:?}/$bin"; fi
ln -sfn "$key" "$cache/$bin"
