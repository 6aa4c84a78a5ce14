# What scripts/gpu_check needs on a machine without packages: MPICH with its launcher, HDF5, GoogleTest,
# Google Benchmark, fmt and CLI11 of this Debian machine, with the libraries that they need, in one file.
# Sourced by scripts/gpu_check.
# shellcheck shell=bash

# Laid out as in Debian, under usr/, because CMake's package files find their neighbours by that; wrappers in
# bin/.
readonly ARCH_LIB=usr/lib/x86_64-linux-gnu
readonly PACK_LIMIT_MB=40

# The C library's and the compiler's, which the other machine has.
readonly NOT_PACKED='^(ld-linux|libc\.so|libm\.so|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+|libgomp)'

packages_missing() {  # prints those that are not here, each after a space
  local package
  for package in mpich libmpich-dev libhdf5-dev libgtest-dev libbenchmark-dev libfmt-dev libcli11-dev; do
    dpkg -s "$package" >/dev/null 2>&1 || printf ' %s' "$package"
  done
}

pack() {  # pack FILE
  local file=$1 root missing
  missing=$(packages_missing)
  if [ -n "$missing" ]; then
    echo "scripts/gpu_check --pack: not installed:$missing; scripts/setup build run" >&2
    return 2
  fi
  root=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$root'" EXIT
  pack_headers "$root"
  pack_libraries "$root"
  pack_wrappers "$root"
  dpkg-query -W -f '${Package} ${Version}\n' mpich libhdf5-dev libgtest-dev libbenchmark-dev libfmt-dev libcli11-dev >"$root/PACKAGES"
  newest_glibc "$root" >"$root/GLIBC"
  mkdir -p "$(dirname "$file")"
  tar -C "$root" --sort=name --owner=0 --group=0 -czf "$file.tmp" . && mv "$file.tmp" "$file"
  local mb=$(($(stat -c %s "$file") / 1000000 + 1))
  echo "$file: $mb MB; needs glibc $(<"$root/GLIBC") or later"
  if [ $mb -gt $PACK_LIMIT_MB ]; then echo "scripts/gpu_check --pack: more than $PACK_LIMIT_MB MB" >&2; return 1; fi
}

pack_headers() {  # pack_headers ROOT
  local name
  mkdir -p "$1/$ARCH_LIB/cmake" "$1/usr/include" "$1/usr/share/cmake" "$1/$ARCH_LIB/hdf5/serial"
  for name in gtest benchmark fmt CLI hdf5/serial x86_64-linux-gnu/mpich; do
    mkdir -p "$1/usr/include/$(dirname "$name")"
    cp -rL "/usr/include/$name" "$1/usr/include/$name"
  done
  cp -rL /$ARCH_LIB/cmake/{GTest,benchmark,fmt} "$1/$ARCH_LIB/cmake/"
  rm -f "$1/$ARCH_LIB/cmake/GTest"/GMock*  # names libraries that are not in here
  cp -rL /usr/share/cmake/CLI11 "$1/usr/share/cmake/"
}

# Libraries under the names that programs ask the loader for, and the names that the linker looks for.
pack_libraries() {  # pack_libraries ROOT
  local lib=$1/$ARCH_LIB path name
  mkdir -p "$1/bin"
  cp -L /usr/bin/mpiexec.hydra /usr/bin/hydra_pmi_proxy "$1/bin/"
  cp -L /$ARCH_LIB/libgtest.a /$ARCH_LIB/libgtest_main.a "$lib/"
  cp -L /$ARCH_LIB/libbenchmark_main.a "$lib/"
  for path in /$ARCH_LIB/libmpich.so /$ARCH_LIB/libhdf5_serial.so /$ARCH_LIB/libhdf5_serial_hl.so /$ARCH_LIB/libbenchmark.so \
    /$ARCH_LIB/libfmt.so; do
    cp -L "$path" "$lib/$(soname "$path")"
    if [ ! -e "$lib/$(basename "$path")" ]; then ln -s "$(soname "$path")" "$lib/$(basename "$path")"; fi
  done
  # CMake's package files of these name the file with all of its version.
  for path in "/$ARCH_LIB"/libbenchmark.so.* "/$ARCH_LIB"/libfmt.so.*; do
    name=$(basename "$path")
    [ -e "$lib/$name" ] || ln -s "$(soname "$path")" "$lib/$name"
  done
  # UCX looks for its transports beside itself.
  if [ -d /$ARCH_LIB/ucx ]; then
    mkdir -p "$lib/ucx"
    cp -P /$ARCH_LIB/ucx/libuct_cma.so* "$lib/ucx/"
  fi
  find "$lib" "$1/bin" -type f \( -name '*.so*' -o -perm -u+x \) -print0 | xargs -0 ldd 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r path; do
    name=$(basename "$path")
    if [[ ! $name =~ $NOT_PACKED ]] && [ ! -e "$lib/$name" ]; then cp -L "$path" "$lib/$name"; fi
  done
  ln -s ../../libhdf5_serial.so "$lib/hdf5/serial/libhdf5.so"
  ln -s ../../libhdf5_serial_hl.so "$lib/hdf5/serial/libhdf5_hl.so"
  find "$lib" "$1/bin" -type f \( -name '*.so*' -o -name 'mpiexec*' -o -name 'hydra*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
}

soname() { objdump -p "$1" | awk '$1 == "SONAME" {print $2}'; }

newest_glibc() {
  find "$1" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null |
    grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1 | sed 's/GLIBC_//'
}

# mpicc as FindMPI asks for it, and mpiexec with its libraries: both know where they were unpacked.
pack_wrappers() {  # pack_wrappers ROOT
  # shellcheck disable=SC2016  # for the wrappers to expand
  local here='root=$(cd "$(dirname "$0")/.." && pwd)'
  cat >"$1/bin/mpicc.mpich" <<WRAPPER
#!/bin/sh
$here
lib=\$root/$ARCH_LIB
compile="-I\$root/usr/include/x86_64-linux-gnu/mpich"
link="-L\$lib -Wl,-rpath,\$lib -lmpich"
case \${1:-} in
  -show|-compile_info|-compile-info|-link_info|-link-info) echo "cc \$compile \$link"; exit 0 ;;
esac
exec "\${CC:-cc}" \$compile "\$@" \$link
WRAPPER
  cat >"$1/bin/mpiexec.mpich" <<WRAPPER
#!/bin/sh
$here
export LD_LIBRARY_PATH="\$root/$ARCH_LIB\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export UCX_MODULE_DIR="\$root/$ARCH_LIB/ucx"
exec "\$root/bin/mpiexec.hydra" -launcher fork -iface lo "\$@"
WRAPPER
  chmod +x "$1/bin/mpicc.mpich" "$1/bin/mpiexec.mpich"
}

unpack() {  # unpack FILE ROOT: unless it is there already
  local glibc
  if [ ! -r "$1" ]; then
    if [ -e "$2/unpacked" ]; then return 0; fi
    echo "no MPI here, and no $1: make it with scripts/gpu_check --pack on a Debian machine"
    return 1
  fi
  if [ "$2/unpacked" -nt "$1" ]; then return 0; fi
  rm -rf "$2" && mkdir -p "$2" && tar -C "$2" -xzf "$1" || return 1
  glibc=$(ldd --version | sed -n '1s/.* //p')
  if [ "$(printf '%s\n' "$glibc" "$(<"$2/GLIBC")" | sort -V | head -n 1)" != "$(<"$2/GLIBC")" ]; then
    echo "the libraries of $1 need glibc $(<"$2/GLIBC") or later, and this machine has $glibc: pack them on an older Debian"
    return 1
  fi
  touch "$2/unpacked"
}
