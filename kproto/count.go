package kproto

import "sync"

// RecordsFrom counts the records at or beyond an offset. Of a batch that compaction took records from only the records themselves tell. Compressed ones stream
// through a window, within the caps of decompress.go. Errors are as of EachRecord, as far as it must look.
func (b Batch) RecordsFrom(offset int64) (n int32, err error) {
	err = b.stream(func(r recordReader) error {
		for i := range b.Count() {
			at, ok := r.skipRecord(b)
			if failure := r.failure(); failure != nil {
				return failure
			}
			if !ok {
				return invalid("record %d does not fill its bytes", i)
			}
			if at >= offset { // they ascend
				n = b.Count() - i
				return nil
			}
		}
		return nil
	})
	return n, err
}

// skipRecord passes over a record and gives its offset.
func (r *recordReader) skipRecord(b Batch) (offset int64, ok bool) {
	size := r.varint()
	end := r.pos + size
	r.skip(1) // attributes: none is defined
	r.varlong()
	offset = b.BaseOffset() + r.varint()
	if r.pos > end {
		r.fail()
	}
	r.skip(end - r.pos)
	return offset, !r.bad
}

// windows pools the memory through which decompressed records stream, windowSize bytes each.
var windows = sync.Pool{New: func() any { return new([windowSize]byte) }}

const windowSize = 32 << 10

// stream gives fn the records decompressed, which are not all in memory at a time if they are compressed.
func (b Batch) stream(fn func(recordReader) error) error {
	payload, codec := b[HeaderSize:], b.Codec()
	if codec == None {
		return fn(memoryReader(payload))
	}
	d, err := decompress(codec, payload, decompressCap(len(payload)))
	if err != nil {
		return err
	}
	defer d.close()
	window := windows.Get().(*[windowSize]byte)
	defer windows.Put(window)
	return fn(streamReader(d, window[:]))
}
