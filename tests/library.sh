#!/usr/bin/env bash
# Builds the C files of a folder of tests into .cache/LIBRARY, once per content: bash tests/library.sh FOLDER LIBRARY
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sources=("$root/tests/$1"/*.c)
library=$root/.cache/$2
key=$(cat "$root/tests/$1"/*.[ch] "${BASH_SOURCE[0]}" | sha256sum)
[ -e "$library" ] && [ "$(cat "$library.key" 2>/dev/null)" = "$key" ] && exit 0
bash "$root/.ci/compiler"
mkdir -p "$(dirname "$library")"
"${CC:-gcc}" -std=gnu11 -O1 -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,"$(basename "$library")" \
  -o "$library.new" "${sources[@]}" -ldl
mv "$library.new" "$library"
printf '%s' "$key" >"$library.key"
