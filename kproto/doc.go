// Package kproto is Kafka's wire format over franz-go's kmsg: frames and headers,
// request decoding behind a budget, record batches v2 (parse, check, stamp in place), control
// records, codecs with a cap on what they may decompress to, and typed ids.
//
// It does no I/O and trusts no length.
//
// # Requests and responses
//
// Numbers are big-endian. A frame is a size of 4 bytes and so many bytes, which are for a request
//
//	+-----+---------+----------------+-----------------------+--------+------
//	| key | version | correlation id | client id: int16 size |  tags  | body
//	|  2  |    2    |       4        |  (-1 is null), bytes  | if v2  |
//	+-----+---------+----------------+-----------------------+--------+------
//
// and for a response
//
//	+----------------+--------+------
//	| correlation id |  tags  | body
//	|       4        | if v1  |
//	+----------------+--------+------
//
// Flexible versions (KIP-482) have tags in the header, compact lengths (an unsigned varint of the
// length plus one, 0 for null) and tags behind the fields of every struct. The response to
// ApiVersions never has tags in its header (KIP-511).
//
// Tags are a count and, in ascending order of the number, the fields
//
//	+--------+--------+-------
//	| number |  size  | bytes      number and size are unsigned varints
//	+--------+--------+-------
//
// # Record batch v2 (KIP-98)
//
//	 0  base offset               8   stamped by the log, outside the CRC
//	 8  length                    4   of all that follows this field
//	12  leader epoch              4   stamped by the log, outside the CRC
//	16  magic                     1   2
//	17  CRC-32C                   4   of all that follows this field
//	21  attributes                2   bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	23  last offset delta         4
//	27  base timestamp            8   ms
//	35  max timestamp             8   ms; the append time if bit 3 is set
//	43  producer id               8   -1 is none
//	51  producer epoch            2   -1 is none
//	53  base sequence             4   -1 is none
//	57  record count              4
//	61  records                       compressed as one block if there is a codec
//
// A record is made of zigzag varints:
//
//	+--------+------------+-----------------+--------------+----------+-----+------------+-------+---------+--------
//	| length | attributes | timestamp delta | offset delta | key size | key | value size | value | headers | header
//	|        |   1 byte   |                 |              | -1: null |     |  -1: null  |       |  count  |  ...
//	+--------+------------+-----------------+--------------+----------+-----+------------+-------+---------+--------
//
// and a header of a key's size and bytes (never null) and a value's size (-1: null) and bytes.
//
// # Control record
//
// The key is a version and a type (0 abort, 1 commit), the value of those a version and the
// coordinator's epoch:
//
//	+---------+------+       +---------+-------------------+
//	| version | type |       | version | coordinator epoch |
//	|    2    |  2   |       |    2    |         4         |
//	+---------+------+       +---------+-------------------+
//
// # Snappy in xerial framing
//
//	+-------------------+---------+------------+   +-------------+-----------
//	| 0x82 'SNAPPY' 0x00| version | compatible |   | chunk size  | raw block     repeated
//	|         8         |    4    |     4      |   |      4      |
//	+-------------------+---------+------------+   +-------------+-----------
package kproto
