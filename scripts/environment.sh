# Sourced by demo, test and check: makes the environment .venv of this checkout.
#
# ready LEVEL   installs what LEVEL needs, unless that has been done since pyproject.toml changed:
#               run (the bridge), test (and the tests), dev (and the checkers).
# shellcheck shell=sh

venv=.venv
log=$venv/install.log

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "error: $1"
    [ -z "${2-}" ] || say "hint: $2"
    exit 1
}

usable='import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'

find_python() {
    seen=
    for python in "${PYTHON-}" python3.14 python3.13 python3.12 python3.11 python3 python; do
        [ -n "$python" ] || continue
        version=$("$python" --version 2>&1) || continue
        if "$python" -c "$usable" 2>/dev/null; then
            return
        fi
        case $seen in *"$version"*) ;; *) seen="$seen, $version" ;; esac
    done
    [ -n "$seen" ] || fail "no Python was found; Python 3.11 to 3.14 is needed" \
        "install one, or name one: PYTHON=/path/to/python3 $0"
    fail "Python 3.11 to 3.14 with its venv module is needed; found only ${seen#, }" \
        "install one (Debian, Ubuntu: apt install python3-venv), or name one: PYTHON=/path/to/python3 $0"
}

make_venv() {
    if "$venv/bin/python" -c "$usable" 2>/dev/null; then
        return
    fi
    find_python
    say "Making an environment in $venv with $version ..."
    "$python" -m venv --clear "$venv" || fail "$python could not make $venv"
}

# What an installation depends on: the project's needs, and where the checkout is.
stamp() {
    cksum <pyproject.toml
    pwd
}

is_ready() {
    case $1 in
        run) levels="run test dev" ;; # each holds all of those before it
        test) levels="test dev" ;;
        *) levels=$1 ;;
    esac
    for level in $levels; do
        if [ "$(cat "$venv/installed-$level" 2>/dev/null)" = "$(stamp)" ]; then
            return 0
        fi
    done
    return 1
}

pip_install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >>"$log" 2>&1 ||
        install_failed
}

install_failed() {
    reason=$(grep -E '^(ERROR|error):' "$log" | tail -n 1)
    if grep -qE 'Retrying|Max retries|ConnectionError|Timeout|Name or service|from versions: none' "$log"
    then
        fail "no package index can be reached, so nothing can be installed (all of it: $log)" \
            "pip's own settings count: PIP_INDEX_URL, HTTPS_PROXY, pip.conf"
    fi
    fail "pip could not install what is needed: ${reason:-it ended without a reason} (all of it: $log)"
}

ready() {
    make_venv
    if is_ready "$1"; then
        return
    fi
    # Few retries: without an index it is better to say so soon.
    PIP_RETRIES=${PIP_RETRIES-2} PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT-15}
    export PIP_RETRIES PIP_DEFAULT_TIMEOUT
    : >"$log"
    rm -f "$venv"/installed-*
    case $1 in
        run) say "Installing acp-bridge and what it needs into $venv (once, under a minute) ..." ;;
        *) say "Installing acp-bridge and the tools of its $1 group into $venv (once, under a minute) ..." ;;
    esac
    if [ "$1" = run ]; then
        pip_install --editable .
    else
        pip_install "pip>=25.1" # the first that knows dependency groups
        pip_install --editable . --group "$1"
    fi
    stamp >"$venv/installed-$1"
}

# uv does not read pip's settings.
use_pips_index() {
    index=$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null) || index=
    UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX-${PIP_INDEX_URL-$index}}
    [ -n "$UV_DEFAULT_INDEX" ] && export UV_DEFAULT_INDEX || unset UV_DEFAULT_INDEX
}
