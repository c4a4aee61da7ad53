package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// limit is what a setting allows beyond its type. The zero limit allows everything.
type limit struct {
	want string // stands after the noun of a number ("of at least 1"), and in place of the noun of anything else
	ok   func(value) bool
}

func atLeast(low int64) limit {
	return limit{fmt.Sprintf("of at least %d", low), func(v value) bool { return v.whole >= low }}
}

func between(low, high int64) limit {
	return limit{fmt.Sprintf("from %d to %d", low, high), func(v value) bool { return low <= v.whole && v.whole <= high }}
}

// orMinusOne also allows -1, which means "none" or "not set".
func orMinusOne(l limit) limit {
	return limit{l.want + ", or -1", func(v value) bool { return v.whole == -1 || l.ok(v) }}
}

// fraction allows doubles from 0 to 1; not-a-number compares false.
func fraction() limit {
	return limit{"from 0 to 1", func(v value) bool { return 0 <= v.number && v.number <= 1 }}
}

func oneOf(words ...string) limit {
	return limit{"one of " + strings.Join(words, ", "), func(v value) bool { return slices.Contains(words, v.text) }}
}

// oneOfAnyCase is oneOf for words that Kafka also takes in capitals.
func oneOfAnyCase(words ...string) limit {
	l := oneOf(words...)
	return limit{l.want, func(v value) bool { return l.ok(value{text: strings.ToLower(v.text)}) }}
}

// someOf allows lists of the words; the empty list too.
func someOf(words ...string) limit {
	return limit{"a list of " + strings.Join(words, ", "), func(v value) bool {
		return !slices.ContainsFunc(v.list, func(s string) bool { return !slices.Contains(words, s) })
	}}
}

// listOf allows lists of texts that contain a part; none of them may be empty.
func listOf(what, part string) limit {
	return limit{"a list of " + what, func(v value) bool {
		return !slices.ContainsFunc(v.list, func(s string) bool { return s == "" || !strings.Contains(s, part) })
	}}
}

// onlyFalse is for switches of something that sluice does not have.
func onlyFalse(missing string) limit {
	return limit{"false (there is " + missing + ")", func(v value) bool { return !v.flag }}
}

// replicaList allows "*" or pairs partition:broker.
func replicaList() limit {
	return limit{"a list of partition:broker, or *", func(v value) bool {
		return slices.Equal(v.list, []string{"*"}) || !slices.ContainsFunc(v.list, func(s string) bool { return !replicaPair(s) })
	}}
}

func replicaPair(s string) bool {
	partition, broker, found := strings.Cut(s, ":")
	return found && natural(partition) && natural(broker)
}

func natural(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
