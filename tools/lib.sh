# shellcheck shell=bash
# What tools/demo and tools/test share: the table of packages, the install step, small helpers.
# Plain bash and what every Debian has: nothing here needs a package that this file installs.

# One row a package: group | Debian 12 | Ubuntu 24.04 | why.
# Groups: run (library and command), test (every test run), more (a part is skipped without it),
# fresh (tools/test --fresh), tidy (tools/check_tidy; nothing installs it).
package_table='
run   | g++                | g++                | compiles the library
run   | cmake              | cmake              | describes the build
run   | ninja-build        | ninja-build        | runs the build
run   | libcli11-dev       | libcli11-dev       | options of the command
run   | nlohmann-json3-dev | nlohmann-json3-dev | --json of the command
run   | libpng-dev         | libpng-dev         | pictures of frames
test  | python3            | python3            | gates, tests of the command, reports
test  | libgtest-dev       | libgtest-dev       | the C++ tests
more  | ccache             | ccache             | a second build takes seconds
more  | pkgconf            | pkgconf            | the test of vramlink.pc
more  | clang              | clang              | the fuzzers
more  | libclang-rt-14-dev | libclang-rt-18-dev | the fuzzers
more  | clang-format-14    | clang-format-14    | the format gate
more  | shellcheck         | shellcheck         | the gate for shell scripts
more  | libbenchmark-dev   | libbenchmark-dev   | the benchmarks
more  | ffmpeg             | ffmpeg             | tests with real video programs
more  | gcovr              | gcovr              | line coverage of channels and the CUDA back end
more  | python3-numpy      | python3-numpy      | tests that read NPY files
fresh | debootstrap        | debootstrap        | makes the fresh root
tidy  | clang-tidy-14      | clang-tidy-14      | finds habits that lead to faults
'

# What tells the distribution.
os_release=/etc/os-release

# Every package of these groups that is still missing after the install step.
missing_packages=()

say() {
  printf '%s\n' "$*" >&2
}

# stop CODE TEXT...: ends the program with a message.
stop() {
  local code=$1
  shift
  say "$*"
  exit "$code"
}

trim() {
  local text=$1
  text=${text#"${text%%[![:space:]]*}"}
  printf '%s' "${text%"${text##*[![:space:]]}"}"
}

# packages GROUP...: prints "name|group|why" for this distribution.
packages() {
  local ubuntu=0 group debian_name ubuntu_name why wanted
  if [[ -r $os_release ]] && grep -q '^ID=ubuntu' "$os_release"; then
    ubuntu=1
  fi
  while IFS='|' read -r group debian_name ubuntu_name why; do
    group=$(trim "$group")
    for wanted in "$@"; do
      if [[ -n $group && $group == "$wanted" ]]; then
        if ((ubuntu)); then
          debian_name=$ubuntu_name
        fi
        printf '%s|%s|%s\n' "$(trim "$debian_name")" "$group" "$(trim "$why")"
      fi
    done
  done <<<"$package_table"
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# is_there NAME: installed as a package, or what we need of it as a program of another origin.
is_there() {
  is_installed "$1" && return
  case $1 in
    ninja-build) command -v ninja >/dev/null ;;
    g++ | cmake | python3) command -v "$1" >/dev/null ;;
    *) return 1 ;;
  esac
}

# as_root COMMAND...: runs it as root, or returns 125 where we have no right to.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  elif command -v sudo >/dev/null && [[ -t 0 ]]; then
    sudo "$@"
  else
    return 125
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1 -o Acquire::http::Timeout=30 "$@" \
    </dev/null >&2
}

# apt_install NAME...: installs them; a second try reads the package lists anew first.
apt_install() {
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    apt update || return
  fi
  apt install --no-install-recommends "$@" && return
  apt update && apt install --no-install-recommends "$@"
}

# still_missing NAME...: prints those that are not installed.
still_missing() {
  local name
  for name in "$@"; do
    if ! is_installed "$name"; then
      printf '%s\n' "$name"
    fi
  done
}

# install_packages GROUP...: installs what is missing of these groups and says what and why.
# Ends the program with 5 if a package that is needed cannot be had; a missing one of the group
# "more" is left in missing_packages.
install_packages() {
  local name group why needed=() wanted=() all=()
  while IFS='|' read -r name group why; do
    all+=("$name")
    if command -v dpkg-query >/dev/null && is_installed "$name"; then
      continue
    fi
    if ((${#wanted[@]} + ${#needed[@]} == 0)); then
      say "Missing packages of this distribution:"
    fi
    say "$(printf '  %-20s %s' "$name" "$why")"
    if [[ $group == more ]]; then
      wanted+=("$name")
    else
      needed+=("$name")
    fi
  done < <(packages "$@")
  if ((${#wanted[@]} + ${#needed[@]} == 0)); then
    return 0
  fi

  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    stop 5 "There is no apt-get here. Install what these packages hold and run this again with" \
      "--no-install: ${all[*]}"
  fi
  local status=0
  as_root true || status=$?
  if ((status != 0)); then
    why=
    if ((${#needed[@]} == 0)); then
      why=" (or go on without them: --no-install)"
    fi
    stop 5 "Installing needs root or sudo. Run: apt-get install ${needed[*]} ${wanted[*]}$why"
  fi

  say "Installing them with apt-get."
  if ! apt_install "${needed[@]}" "${wanted[@]}"; then
    # One package that cannot be had must not keep the others away.
    if ((${#needed[@]} > 0)); then
      apt_install "${needed[@]}" || true
    fi
    local limit=$((SECONDS + 300))
    for name in ${wanted[@]+"${wanted[@]}"}; do
      if ((SECONDS < limit)) && ! is_installed "$name"; then
        apt install --no-install-recommends "$name" || true
      fi
    done
  fi
  if ((${#needed[@]} > 0)); then
    mapfile -t needed < <(still_missing "${needed[@]}")
  fi
  if ((${#needed[@]} > 0)); then
    stop 5 "apt-get could not install what is needed: ${needed[*]}"
  fi
  if ((${#wanted[@]} > 0)); then
    mapfile -t missing_packages < <(still_missing "${wanted[@]}")
  fi
}

# say_missing: names what stayed away; the parts that need it are skipped and say so themselves.
say_missing() {
  if ((${#missing_packages[@]} > 0)); then
    say "Not installed, so what needs them is skipped: ${missing_packages[*]}"
  fi
}

# require_packages GROUP...: ends the program with 5 and the names if one is missing. Where packages
# are not those of dpkg, the build has to find out.
require_packages() {
  local name group why needed=()
  if ! command -v dpkg-query >/dev/null; then
    return 0
  fi
  while IFS='|' read -r name group why; do
    if ! is_there "$name"; then
      needed+=("$name")
    fi
  done < <(packages "$@")
  if ((${#needed[@]} > 0)); then
    stop 5 "Missing, and --no-install was given: ${needed[*]}"
  fi
}

# find_missing GROUP...: fills missing_packages without installing anything.
find_missing() {
  local names
  missing_packages=()
  if command -v dpkg-query >/dev/null; then
    mapfile -t names < <(packages "$@" | cut -d'|' -f1)
    mapfile -t missing_packages < <(still_missing "${names[@]}")
  fi
}

# configure PRESET [OPTION...]: configures build/PRESET unless that was done with these options;
# the build itself configures again when a CMake file changes.
configure() {
  local preset=$1 mark=build/$1/configured-with text
  shift
  text="$preset $*"
  if [[ -f build/$preset/build.ninja && -f $mark && $(<"$mark") == "$text" ]]; then
    return 0
  fi
  cmake --preset "$preset" "$@" || return
  printf '%s\n' "$text" >"$mark"
}
