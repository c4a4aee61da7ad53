package catalog

import "sluice/kproto"

// counts tells how often each thing is mentioned in a request. Kafka refuses what is mentioned twice, once, and does none of it.
type counts[K comparable] map[K]int

func count[T any, K comparable](items []T, key func(T) K) counts[K] {
	c := make(counts[K], len(items))
	for _, item := range items {
		c[key(item)]++
	}
	return c
}

// take gives the count at the first call for a key, and 0 from then on: it has been dealt with.
func (c counts[K]) take(key K) int {
	n := c[key]
	c[key] = 0
	return n
}

func errMentioned(what, name string) error {
	return kproto.Errorf(kproto.InvalidRequest, "The %s %s is mentioned more than once.", what, name)
}

func errInternal(name, done string) error {
	return kproto.Errorf(kproto.InvalidTopic, "Topic %s is internal and is not %s.", name, done)
}
