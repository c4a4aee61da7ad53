#!/usr/bin/env bash
# What Apache Kafka's kafka-configs must be able to do with a broker.   usage: check.sh HOST:PORT
# Prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
set -u
cd "$(dirname "$0")" || exit 1
broker=$1
topic=configs-$$-$RANDOM.eu.paid
group=configs-$$-$RANDOM
user=configs-$$-$RANDOM
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
  local why; why=$(mktemp)
  if "$2" 2>"$why"; then echo "$1,PASS"; else echo "$1,FAIL"; { echo "kafka-configs $1:"; cat "$why"; } >&2; fi
  rm -f "$why"
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

# of TYPE=NAME... is the options for an entity of quotas; a name that is empty is the default.
of() {
  local part
  for part; do
    echo --entity-type "${part%%=*}"
    if [ -n "${part#*=}" ]; then echo --entity-name "${part#*=}"; else echo --entity-default; fi
  done
}
# quota [option...] ENTITY... runs kafka-configs for it.
quota() { local options=(); while [[ $1 == --* ]]; do options+=("$1"); shift; done; tool ConfigCommand "${options[@]}" $(of "$@"); }
# described LINE ENTITY... tells whether that is all that is said of its quotas.
described() { local line=$1; shift; [ "$(quota --describe "$@" | show | grep '^Quota configs')" = "$line" ]; }

# Others use the broker, too: the names are of this run, and the rate of the default is above what anybody needs.
quotas_of_a_user() {
  quota --alter --add-config=consumer_byte_rate=50000,request_percentage=12.5 users="$user" | show | grep -q '^Completed updating' &&
    described "Quota configs for user-principal '$user' are consumer_byte_rate=50000.0, request_percentage=12.5" users="$user" &&
    quota --alter --delete-config=consumer_byte_rate users="$user" | show | grep -q '^Completed updating' &&
    described "Quota configs for user-principal '$user' are request_percentage=12.5" users="$user"
}

quotas_of_a_client_id() {
  quota --alter --add-config=producer_byte_rate=1000 clients="$user" | show | grep -q '^Completed updating' &&
    quota --alter --add-config=producer_byte_rate=0 clients="$user" | show | grep -q 'InvalidRequestException: .*producer_byte_rate must be greater than 0' &&
    described "Quota configs for client-id '$user' are producer_byte_rate=1000.0" clients="$user"
}

quotas_of_a_user_with_client_ids() {
  quota --alter --add-config=consumer_byte_rate=70 users="$user" clients= | show | grep -q '^Completed updating' &&
    described "Quota configs for user-principal '$user', the default client-id are consumer_byte_rate=70.0" users="$user" clients=
}

quotas_of_the_default() {
  quota --alter --add-config=consumer_byte_rate=1000000000000 clients= | show | grep -q '^Completed updating' &&
    described 'Quota configs for the default client-id are consumer_byte_rate=1.0E12' clients= &&
    quota --alter --delete-config=consumer_byte_rate clients= | show | grep -q '^Completed updating' && described "" clients=
}

tools=$(mktemp)
trap 'rm -f "$tools"' EXIT
{ # beside each other: a JVM takes its time to start
  check 'quotas of a user' quotas_of_a_user
  check 'quotas of a user with client ids' quotas_of_a_user_with_client_ids
} &
{
  check 'quotas of a client id' quotas_of_a_client_id
  check 'quotas of the default client id' quotas_of_the_default
} &
tool TopicCommand --create --topic "$topic" >"$tools" || cat "$tools" >&2
check 'settings of a topic' of_a_topic
check 'settings of a namespace' of_a_namespace
check 'settings of a broker' of_a_broker
check 'settings of a group' of_a_group
wait
