package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"sluice/config"
	"sluice/internal/vfs"
	"sluice/log"
)

// metaFile names the cluster and node that a data directory belongs to, in Kafka's format version 1. The catalog is
// the truth; the file is there so that people and tools can tell, so it is not synced, and one that lacks its values
// is made anew.
const metaFile = "meta.properties"

// maxMetaBytes bounds what is read of meta.properties: a few lines.
const maxMetaBytes = 64 << 10

// metaProperties is the content of meta.properties; nil when there is none.
type metaProperties map[string]string

func readMeta(fsys vfs.FS, dir string) (metaProperties, error) {
	text, err := readSmallFile(fsys, filepath.Join(dir, metaFile), maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", metaFile, err)
	}
	m, err := config.ParseProperties(text)
	if err != nil || m["version"] == "" {
		return nil, nil // torn by a power cut or a full disk: the version stands last
	}
	return m, nil
}

// metaVersion is Kafka's version of the file, and the newest form of the data directory that this broker reads.
const metaVersion = 1

// check refuses what is not this node's to open: the data directory of a later version, which may have changed any file, or of another node.
func (m metaProperties) check() error {
	if m == nil {
		return nil
	}
	if v, err := strconv.Atoi(m["version"]); err != nil || v < 0 || v > metaVersion {
		return fmt.Errorf("%w: %s has version %s, and this one reads versions up to %d; nothing was changed", log.ErrNewer, metaFile, m["version"], metaVersion)
	}
	return m.checkNode()
}

// checkNode refuses the data directory of another node.
func (m metaProperties) checkNode() error {
	if id := m["node.id"]; id != "" && id != strconv.Itoa(NodeID) {
		return fmt.Errorf("the data directory belongs to node %s (%s), this is node %d", id, metaFile, NodeID)
	}
	return nil
}

// checkCluster refuses the data directory of another cluster, or one whose catalog is lost.
func (m metaProperties) checkCluster(id string) error {
	if have := m["cluster.id"]; have != "" && have != id {
		return fmt.Errorf("the data directory belongs to cluster %s (%s), its catalog to cluster %s", have, metaFile, id)
	}
	return nil
}

// write makes the file say the cluster's id, if it does not.
func (m metaProperties) write(fsys vfs.FS, dir, clusterID string) error {
	if m["cluster.id"] == clusterID && m["node.id"] != "" {
		return nil
	}
	text := fmt.Sprintf("cluster.id=%s\nnode.id=%d\nversion=%d\n", clusterID, NodeID, metaVersion)
	f, err := fsys.OpenFile(filepath.Join(dir, metaFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", metaFile, err)
	}
	_, err = f.WriteAt([]byte(text), 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", metaFile, err)
	}
	return nil
}

// readSmallFile reads a whole file of at most limit bytes.
func readSmallFile(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected", filepath.Base(name), size, limit)
	}
	b := make([]byte, size)
	if size == 0 {
		return b, nil
	}
	_, err = f.ReadAt(b, 0)
	return b, err
}
