// Package kproto is Kafka's wire format over franz-go's kmsg: frames and headers,
// request decoding behind a budget, record batches v2 (parse, check, stamp in place), control
// records, codecs with a cap on what they may decompress to, and typed ids.
//
// It does no I/O and trusts no length.
package kproto
