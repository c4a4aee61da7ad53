#!/usr/bin/env bash
# What Apache Kafka's kafka-configs must be able to do with a broker.   usage: check.sh HOST:PORT
# Prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
set -u
cd "$(dirname "$0")" || exit 1
broker=$1
topic=configs-$$-$RANDOM.eu.paid
group=configs-$$-$RANDOM
rate=dispatch.throttling.rate.in.msg
precise=dispatch.throttling.precise.flow.control
batches=dispatch.throttling.on.batch.message.enabled

tool() { # CLASS [option...]
  timeout 60 java -Xmx128M -XX:TieredStopAtLevel=1 -cp 'lib/*' "org.apache.kafka.tools.$1" --bootstrap-server "$broker" "${@:2}" 2>&1
}
# entity TYPE NAME [option...] runs kafka-configs for a resource; the name "" is the default of all.
entity() {
  if [ -n "$2" ]; then tool ConfigCommand --entity-type "$1" --entity-name "$2" "${@:3}"; else tool ConfigCommand --entity-type "$1" --entity-default "${@:3}"; fi
}
set_to() { entity "$1" "$2" --alter --add-config "$3" | show | grep -q '^Completed updating'; }
unset_it() { entity "$1" "$2" --alter --delete-config "$3" | show | grep -q '^Completed updating'; }
# shows TYPE NAME LINE... tells whether the description of what is set there has lines that begin so.
shows() {
  local described line; described=$(entity "$1" "$2" --describe | show)
  for line in "${@:3}"; do grep -qF "  $line " <<<"$described" || return; done
}
# refused TYPE NAME KEY=VALUE TEXT tells whether that is refused with a message that has the text.
refused() { entity "$1" "$2" --alter --add-config "$3" | show | grep -q "InvalidConfigurationException: .*$4"; }
show() { tee /dev/stderr; }

check() { # check NAME FUNCTION
  if "$2" 2>"$why"; then echo "$1,PASS"; else echo "$1,FAIL"; { echo "kafka-configs $1:"; cat "$why"; } >&2; fi
}

of_a_topic() {
  set_to topics "$topic" "dispatchThrottlingRateInMsg=10,subscription.$rate=0" && shows topics "$topic" "$rate=10" "subscription.$rate=-1" &&
    refused topics "$topic" "$rate=9223372036854775808" 'fits in 64 bits'
}

of_a_namespace() {
  local key=namespace.${topic%.paid}.subscription.$rate
  set_to brokers "" "$key=50,ratePeriodInSecond=60" && shows brokers "" "$key=50" dispatch.throttling.rate.period.seconds=60 &&
    unset_it brokers "" "$key,dispatch.throttling.rate.period.seconds"
}

of_a_broker() {
  set_to brokers 1 "$batches=true" && refused brokers 1 preciseDispatcherFlowControl=true "$precise .* and $batches .* exclude each other" &&
    unset_it brokers 1 "$batches"
}

of_a_group() {
  set_to groups "$group" "$rate=5,consumer.session.timeout.ms=50000" && shows groups "$group" "$rate=5" consumer.session.timeout.ms=50000 &&
    refused groups "$group" consumer.session.timeout.ms=1 'from 45000 to 60000'
}

why=$(mktemp)
trap 'rm -f "$why"' EXIT
tool TopicCommand --create --topic "$topic" >"$why" || cat "$why" >&2
check 'settings of a topic' of_a_topic
check 'settings of a namespace' of_a_namespace
check 'settings of a broker' of_a_broker
check 'settings of a group' of_a_group
