package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeLogDirs answers DescribeLogDirs, v1-4: the one data directory, with the sizes of the asked partitions or of all. Partitions that do not exist
// are left out, as in Kafka; so are those that are offline, whose size nobody knows. Bytes of the whole disk (v4) are not told: -1.
func (b *Broker) describeLogDirs(c *call, q *kmsg.DescribeLogDirsRequest) {
	d := kmsg.NewDescribeLogDirsResponseDir()
	d.Dir = b.opts.DataDir
	if q.Topics == nil {
		b.topics.each(func(t *topic) bool {
			all := make([]int32, t.partitions())
			for i := range all {
				all[i] = int32(i)
			}
			d.Topics = append(d.Topics, describedLogs(t, all))
			return true
		})
	}
	for _, rt := range q.Topics {
		if t := b.topics.byName(rt.Topic); t != nil {
			d.Topics = append(d.Topics, describedLogs(t, rt.Partitions))
		}
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{d}
	c.answer(resp)
}

func describedLogs(t *topic, partitions []int32) kmsg.DescribeLogDirsResponseDirTopic {
	x := kmsg.NewDescribeLogDirsResponseDirTopic()
	x.Topic = t.name
	for _, i := range partitions {
		l := t.partition(i)
		if l == nil {
			continue
		}
		size, err := l.Size()
		if err != nil {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = i, size
		x.Partitions = append(x.Partitions, p)
	}
	return x
}
