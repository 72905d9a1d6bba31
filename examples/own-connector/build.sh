#!/usr/bin/env bash
# Compiles the connector against Connect's own jars and packs it.
#
#   build.sh [TARGET]      TARGET/own-connector/counter-1.0.0.jar; TARGET is build/ beside this file
#
# KAFKA_LIBS is the folder with Connect's jars, such as libs/ of a Kafka release. Without it the jars of seamark's devstack
# are taken, and fetched if need be.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:-$here/build}
java_bin=${JAVA_HOME:+$JAVA_HOME/bin/}
libs=${KAFKA_LIBS:-$("${PYTHON:-python3}" -c 'from seamark.devstack.downloads import kafka_jars; print(kafka_jars())')}

classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT

"${java_bin}javac" --release 17 -Xlint:all -Werror -classpath "$libs/*" -d "$classes" "$here"/src/example/counter/*.java
# The list of services by which a worker finds the plugin without looking into every class.
cp -r "$here/resources/." "$classes"

mkdir -p "$target/own-connector"
"${java_bin}jar" --create --file "$target/own-connector/counter-1.0.0.jar" -C "$classes" .
echo "$target/own-connector"
