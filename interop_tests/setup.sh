#!/usr/bin/env bash
# Installs and builds the foreign clients that the tests in this directory talk with: kcat, Chromium, Prometheus, the Java clients with
# Kafka's own tools, and the Go clients. Safe to run at any time: work whose inputs have not changed is not repeated.
# Needs java 17 and mvn, go 1.21 or newer (it fetches the tool chain that go.mod names), and, where kcat, chromium or prometheus is missing, apt with root rights.
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "interop_tests/setup.sh: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is needed and not on the PATH"; }

# A stamp holds the hash of everything a build was made from, so an edited source or a changed pin builds again.
hash_of() { find "$@" -type f -not -path '*/target/*' -not -path '*/bin/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1; }
is_fresh() { [ -f ".stamps/$1" ] && [ "$(cat ".stamps/$1")" = "$2" ]; }
stamp() { mkdir -p .stamps && echo "$2" >".stamps/$1"; }

# One machine may run this from several checkouts or jobs at once; builds take turns.
mkdir -p .stamps
exec 9>.stamps/lock
flock 9

ensure() { # COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  [ "$(id -u)" = 0 ] || die "$1 is missing: apt-get install $2"
  need apt-get
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" >/dev/null
}

build_java() {
  local hash; hash=$(hash_of java setup.sh)
  if is_fresh java "$hash" && [ -d java/target/classes ]; then return; fi
  need mvn
  rm -rf java/target
  mvn -B -q -Dstyle.color=never -f java/pom.xml process-classes
  stamp java "$hash"
}

build_go() {
  local hash; hash=$(hash_of go setup.sh)
  if is_fresh go "$hash" && [ -x go/bin/goclients ]; then return; fi
  need go
  (cd go && go build -buildvcs=false -trimpath -o bin/goclients .)
  stamp go "$hash"
}

ensure kcat kcat
ensure chromium chromium
ensure prometheus prometheus
# For networks of the tests' own, which only root may have; others do without.
if [ "$(id -u)" = 0 ]; then ensure tc iproute2; fi
build_java
build_go
