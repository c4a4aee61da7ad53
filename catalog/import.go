package catalog

import "sluice/internal/machine"

// importTopics makes all topics in one step, and lets nothing that this broker gives out later fall back behind what they hold.
func (m *Machine) importTopics(ev ImportTopics) ([]TopicResult, machine.Effects) {
	results, e := m.createTopics(CreateTopics{Topics: ev.Topics})
	for _, r := range results {
		if r.Err != nil {
			return results, machine.Effects{}
		}
	}
	if ev.Epoch > m.epoch {
		e.Records = append(e.Records, epochRecord(ev.Epoch))
	}
	if ev.NextProducerID > m.nextProducerID {
		e.Records = append(e.Records, producerIDsRecord(ev.NextProducerID))
	}
	return results, e
}
