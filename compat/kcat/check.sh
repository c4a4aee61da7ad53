#!/usr/bin/env bash
# What kcat (librdkafka) must be able to do with a broker.   usage: check.sh HOST:PORT
# Prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
set -u
broker=$1
topic=kcat-$$-$RANDOM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

k() { timeout 30 kcat -b "$broker" "$@"; }
produce() { k -P -t "$@"; }
consume() { k -C -q -e -t "$@"; }
# same WANT GOT compares two texts.
same() { [ "$1" = "$2" ] || { printf 'want: %.300s\ngot:  %.300s\n' "$1" "$2" >&2; return 1; }; }

check() { # check NAME FUNCTION [ARGUMENT...]
  local name=$1; shift
  if "$@" 2>>"$work/why"; then echo "$name,PASS"; else echo "$name,FAIL"; { echo "kcat $name:"; cat "$work/why"; } >&2; fi
  : >"$work/why"
}

# 3000 lines of key:value, the values of very different lengths.
seq 3000 | awk '{ v = ""; for (i = 0; i < $1 % 37; i++) v = v $1; print "key" $1 ":" v "." }' >lines

listing() {
  produce "$topic-list" -p 0 <<<one || return
  k -L -t "$topic-list" | grep -q "topic \"$topic-list\" with 1 partitions" || return
  k -L -J -t "$topic-list" | grep -q '"partition":0'
}

# Everything written with a codec and acks comes back, in order.
round_trip() { # CODEC ACKS [kcat option...]
  local t=$topic-$1-$2-$#; local codec=$1 acks=$2; shift 2
  produce "$t" -K: -z "$codec" -X acks="$acks" -l lines "$@" || return
  # Records written with acks=0 may arrive after kcat has ended, so a count is waited for instead of the end.
  k -C -q -t "$t" -o beginning -c 3000 -f '%k:%s\n' | cmp - lines >&2
}

big_record() {
  head -c 700000 /dev/urandom | base64 -w0 >big
  produce "$topic-big" -X message.max.bytes=1000000 big || return
  consume "$topic-big" -o beginning -f '%s' | cmp - big >&2
}

headers() {
  produce "$topic-h" -H a=1 -H b= -H a=2 <<<value || return
  same 'a=1,b=,a=2 value' "$(consume "$topic-h" -o beginning -f '%h %s')"
}

nulls() {
  printf 'k1:\n:v2\nk3:v3\n' | produce "$topic-n" -K: -Z || return
  same 'k1/NULL(-1) NULL/v2(2) k3/v3(2) ' "$(consume "$topic-n" -o beginning -Z -f '%k/%s(%S) ')"
}

keyed_partitions() { # a key's records share a partition, in order
  produce "$topic-list" <<<x || return
  local t=$topic-parts
  seq 300 | awk '{ print "k" $1 % 5 ":" $1 }' | produce "$t" -K: -X topic.partitioner=murmur2_random || return
  consume "$t" -o beginning -f '%k %s %p\n' >got
  awk '{ if ($1 in p && p[$1] != $3 || $2 <= last[$1]) exit 1; p[$1] = $3; last[$1] = $2 + 0; n++ } END { exit n != 300 }' got
}

# Ten records, a second apart, in three batches.
ten() { # TOPIC
  local i
  for i in 0-3 4-6 7-9; do
    seq "${i%-*}" "${i#*-}" | produce "$1" -z gzip || return
  done
}

from_offset() {
  ten "$topic-ten" || return
  local i
  for i in 0 1 3 4 5 9; do
    same "$(seq -s' ' "$i" 9)" "$(consume "$topic-ten" -o "$i" -f '%s ' | sed 's/ $//')" || return
  done
}

offsets_match() { same '0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 ' "$(consume "$topic-ten" -o beginning -f '%o=%s ')"; }
last_three() { same '7 8 9 ' "$(consume "$topic-ten" -o -3 -f '%s ')"; }
from_end() { same '' "$(consume "$topic-ten" -o end -f '%s ')"; }
count() { same '2 3 4 ' "$(k -C -q -t "$topic-ten" -o 2 -c 3 -f '%s ')"; }

from_time() {
  local middle
  middle=$(consume "$topic-ten" -o 7 -f '%T\n' | head -1)
  same '7 8 9 ' "$(consume "$topic-ten" -o "s@$middle" -f '%s ')" || return
  same '0 1 2 3 4 5 6 ' "$(consume "$topic-ten" -o s@0 -o "e@$middle" -f '%s ')"
}

query_times() {
  local middle
  middle=$(consume "$topic-ten" -o 4 -f '%T\n' | head -1)
  same "$topic-ten [0] offset 4" "$(k -Q -t "$topic-ten:0:$middle")" || return
  same "$topic-ten [0] offset 0" "$(k -Q -t "$topic-ten:0:-2")" || return
  same "$topic-ten [0] offset 10" "$(k -Q -t "$topic-ten:0:-1")"
}

# A consumer that waits at the end gets what is written afterwards.
follow() {
  local t=$topic-follow
  produce "$t" <<<before || return
  k -C -q -u -t "$t" -p 0 -o end -c 2 -f '%s ' >followed &
  local reader=$! i
  # The consumer says nowhere that it has begun, so records are written until it has its two.
  for i in $(seq 100); do
    kill -0 "$reader" 2>/dev/null || break
    produce "$t" -p 0 <<<"after$i" || return
    sleep 0.05
  done
  wait "$reader" || return
  awk '{ n = substr($1, 6); exit !($1 == "after" n && $2 == "after" n + 1) }' followed
}

unknown_partition() { ! produce "$topic-ten" -p 99 <<<x 2>/dev/null; }

too_large() { # the client lets it through, the broker refuses it
  head -c 1500000 /dev/urandom | base64 -w0 >huge
  ! produce "$topic-ten" -X message.max.bytes=3000000 huge 2>huge.err && grep -qi 'too large' huge.err
}

check 'list topics' listing
for codec in none gzip snappy lz4 zstd; do
  for acks in 0 1 all; do
    check "produce $codec acks=$acks" round_trip "$codec" "$acks"
  done
  check "produce $codec idempotent" round_trip "$codec" all -X enable.idempotence=true
done
check 'produce a large record' big_record
check 'produce headers' headers
check 'produce nulls' nulls
check 'produce keys to partitions' keyed_partitions
check 'produce to a missing partition' unknown_partition
check 'consume from offsets' from_offset
check 'consume shows offsets' offsets_match
check 'consume the last three' last_three
check 'consume from the end' from_end
check 'consume a count' count
check 'consume by timestamp' from_time
check 'consume follows' follow
check 'query offsets by timestamp' query_times
check 'produce too large a record' too_large
