#!/bin/bash
# Lays programs and the libraries that they need into a folder, as they lie in the image's root.
#
#   deploy/image/make_root.sh FOLDER PROGRAM...
#
# Without glibc, which every image of Debian has. usr/share/doc/sangam/PROGRAM.packages lists what was taken from which
# version of Debian's packages, and their licences lie beside it.
set -euo pipefail

if (($# < 2)); then
  echo "usage: make_root.sh FOLDER PROGRAM..." >&2
  exit 2
fi
folder="$1"
shift

doc="$folder/usr/share/doc/sangam"
libraries="$folder/usr/local/lib/sangam"
mkdir -p "$folder/usr/local/bin" "$libraries" "$folder/etc/ld.so.conf.d" "$doc/copyright"
echo /usr/local/lib/sangam >"$folder/etc/ld.so.conf.d/sangam.conf"
glibc='^(ld-linux-.*|libc|libm|libdl|librt|libpthread|libresolv)\.so'

for program in "$@"; do
  name="$(basename "$program")"
  install -m 755 "$program" "$folder/usr/local/bin/$name"
  # Names of functions stay, for stack traces.
  strip --strip-debug "$folder/usr/local/bin/$name"
  needed="$(ldd "$program")"
  if grep 'not found' <<<"$needed" >&2; then
    echo "make_root.sh: $program: the libraries above are missing" >&2
    exit 1
  fi
  mapfile -t from < <(awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$needed" | sort -u)
  # As dpkg may know them: /lib is a link to /usr/lib. One of CUDA's own installer belongs to no package.
  known=()
  for library in "${from[@]}"; do
    if [[ "$(basename "$library")" =~ $glibc ]]; then continue; fi
    install -m 644 "$(realpath "$library")" "$libraries/$(basename "$library")"
    known+=("$library" "$(realpath "$library")" "/usr$library")
  done
  mapfile -t packages < <(dpkg-query -S "${known[@]}" 2>/dev/null | cut -d: -f1 | sort -u)
  # shellcheck disable=SC2016  # dpkg-query expands it
  dpkg-query -W -f='${Package} ${Version} ${Architecture}\n' "${packages[@]}" >"$doc/$name.packages"
  for package in "${packages[@]}"; do
    if [[ -r "/usr/share/doc/$package/copyright" ]]; then cp -L "/usr/share/doc/$package/copyright" "$doc/copyright/$package"; fi
  done
done
chmod -R u=rwX,go=rX "$folder"
