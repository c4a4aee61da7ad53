package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Kafka's partition.metadata: which topic (by id) a directory belongs to. It keeps a re-created topic from ever showing its predecessor's data.

// maxMetadataFile is far above its two lines.
const maxMetadataFile = 4096

var errBadMetadata = errors.New(metadataFile + " is damaged")

// readMetadata fails with os.ErrNotExist, errBadMetadata, or an error of the disk.
func readMetadata(fs vfs.FS, dir string) (kproto.TopicID, error) {
	data, err := vfs.ReadFile(fs, filepath.Join(dir, metadataFile), maxMetadataFile)
	if err != nil {
		return kproto.TopicID{}, err
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "topic_id:"); ok {
			id, err := kproto.ParseTopicID(strings.TrimSpace(v))
			if err != nil {
				err = fmt.Errorf("%w: %w", errBadMetadata, err)
			}
			return id, err
		}
	}
	return kproto.TopicID{}, fmt.Errorf("%w: it names no topic_id", errBadMetadata)
}

func writeMetadata(fs vfs.FS, dir string, id kproto.TopicID) error {
	return writeSynced(fs, filepath.Join(dir, metadataFile), fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", id))
}
