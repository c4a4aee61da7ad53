package kproto

// Recompress returns the batch with its records in another codec (compression.type other than
// producer), in a fresh slice unless it is in that codec already. All else stays: offsets, timestamps
// and their type, producer, attributes. The level is as in Compress.
func Recompress(b Batch, c Codec, level int) (Batch, error) {
	if !c.valid() {
		return nil, c.unsupported()
	}
	if b.Codec() == c || b.Count() == 0 {
		return b, nil
	}
	records, err := b.records()
	if err != nil {
		return nil, err
	}
	header := append(make(Batch, 0, HeaderSize+len(records)), b[:HeaderSize]...)
	header[posAttributes+1] = header[posAttributes+1]&^attrCodec | byte(c)
	return header.seal(records, level), nil
}
