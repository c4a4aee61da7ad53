// Package group will hold the consumer groups: a pure machine over the records of __consumer_offsets.
package group
