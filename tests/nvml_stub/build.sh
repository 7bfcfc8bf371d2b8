#!/usr/bin/env bash
# Builds the stub of NVIDIA's library into .cache/nvml-stub, once per content of its sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/nvml-stub
library=$cache/libnvidia-ml.so.1
key=$(cat "$here"/*.c "$here"/*.h "$here/build.sh" | sha256sum)
[ -e "$library" ] && [ "$(cat "$cache/key" 2>/dev/null)" = "$key" ] && exit 0
bash "$here/../../.ci/compiler"
mkdir -p "$cache"
"${CC:-gcc}" -std=gnu11 -O1 -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 \
  -o "$library.new" "$here/nvml.c" "$here/json.c"
mv "$library.new" "$library"
printf '%s' "$key" >"$cache/key"
