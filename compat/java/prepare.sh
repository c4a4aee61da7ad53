#!/usr/bin/env bash
# Fetches Apache Kafka's client with Maven, once, and compiles the programs.
set -euo pipefail
cd "$(dirname "$0")"
command -v java javac >/dev/null
if [ ! -e lib/complete ]; then
  timeout 300 mvn -q -B -f pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/lib" -DincludeScope=runtime
  touch lib/complete
fi
javac -nowarn -d classes -cp 'lib/*' *.java
