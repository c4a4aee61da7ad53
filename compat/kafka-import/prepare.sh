#!/usr/bin/env bash
# Fetches the jars of an Apache Kafka broker with Maven, once.
set -euo pipefail
cd "$(dirname "$0")"
command -v java >/dev/null
if [ ! -e lib/complete ]; then
  timeout 300 mvn -q -B -f pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/lib" -DincludeScope=runtime
  touch lib/complete
fi
