package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// describeLogDirs answers DescribeLogDirs, v1-4: the one data directory, with the sizes of the asked partitions or of
// all. Partitions that do not exist are left out, as in Kafka; so are those that are offline, whose size nobody
// knows. A partition may have to be opened to know its size, so this is done aside.
//
//	v4  the size of the disk and what of it can be used (KIP-827); -1 if the file system does not know
func (b *Broker) describeLogDirs(c *call, q *kmsg.DescribeLogDirsRequest) {
	go c.guard(func() {
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		resp.Dirs = []kmsg.DescribeLogDirsResponseDir{b.describedDir(q)}
		c.answer(resp)
	})
}

func (b *Broker) describedDir(q *kmsg.DescribeLogDirsRequest) kmsg.DescribeLogDirsResponseDir {
	d := kmsg.NewDescribeLogDirsResponseDir()
	d.Dir = b.opts.DataDir
	disk := b.dir.Disk()
	d.TotalBytes, d.UsableBytes = disk.Total, disk.Usable
	if q.Topics == nil {
		for _, t := range b.topics.list() {
			d.Topics = append(d.Topics, describedLogs(t, t.partitionNumbers()))
		}
	}
	for _, rt := range q.Topics {
		if t := b.topics.byName(rt.Topic); t != nil {
			d.Topics = append(d.Topics, describedLogs(t, rt.Partitions))
		}
	}
	return d
}

func describedLogs(t *topic, partitions []int32) kmsg.DescribeLogDirsResponseDirTopic {
	x := kmsg.NewDescribeLogDirsResponseDirTopic()
	x.Topic = t.name
	for _, i := range partitions {
		if i < 0 || i >= t.partitions() {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition = i
		if l := t.used(i); l != nil {
			var err error
			if p.Size, err = l.Size(); err != nil {
				continue
			}
		}
		x.Partitions = append(x.Partitions, p)
	}
	return x
}
