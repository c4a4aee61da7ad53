package group

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/machine"
	"sluice/kproto"
)

func showReply(v any) string {
	switch v := v.(type) {
	case *kmsg.JoinGroupResponse:
		return showJoin(v)
	case *kmsg.SyncGroupResponse:
		if v.ErrorCode != 0 {
			return kproto.CodeName(v.ErrorCode)
		}
		return showAssignment(v.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return kproto.CodeName(v.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return showLeave(v)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return showBeat(v)
	case kmsg.ConsumerGroupDescribeResponseGroup:
		return showConsumers(v)
	case *kmsg.OffsetCommitResponse:
		var out []string
		for _, t := range v.Topics {
			for _, p := range t.Partitions {
				out = append(out, kproto.CodeName(p.ErrorCode))
			}
		}
		return strings.Join(out, " ")
	case FetchedOffsets:
		return showFetched(v)
	case kmsg.DescribeGroupsResponseGroup:
		return showDescribed(v)
	case []kmsg.ListGroupsResponseGroup:
		var out []string
		for _, g := range v {
			out = append(out, fmt.Sprintf("%s %s %q", g.Group, g.GroupState, g.ProtocolType))
		}
		return strings.Join(out, ", ")
	case *kmsg.OffsetDeleteResponse:
		return showDeleted(v)
	case int16:
		return kproto.CodeName(v)
	case bool:
		return map[bool]string{true: "evicted", false: "left alone"}[v]
	case nil:
		return "done"
	}
	return fmt.Sprintf("%T?", v)
}

func showJoin(r *kmsg.JoinGroupResponse) string {
	switch r.ErrorCode {
	case kproto.NoError:
	case kproto.MemberIDRequired:
		return "MEMBER_ID_REQUIRED " + r.MemberID
	default:
		return kproto.CodeName(r.ErrorCode)
	}
	out := fmt.Sprintf("%s in generation %d of %s, led by %s", r.MemberID, r.Generation, *r.Protocol, r.LeaderID)
	if r.SkipAssignment {
		out += ", skip assignment"
	}
	for _, m := range r.Members {
		out += "\n  member " + m.MemberID + showInstance(m.InstanceID) + showOwned(m.ProtocolMetadata)
	}
	return out
}

func showInstance(id *string) string {
	if id == nil {
		return ""
	}
	return " (" + *id + ")"
}

func showOwned(subscription []byte) string {
	s, ok := decodeSubscription(subscription)
	if !ok {
		return " with other bytes"
	}
	out := " of " + strings.Join(s.Topics, ",")
	for _, o := range s.OwnedPartitions {
		out += " owns " + showPartitions(map[string][]int32{o.Topic: o.Partitions})
	}
	return out
}

func showLeave(r *kmsg.LeaveGroupResponse) string {
	if r.ErrorCode != 0 || len(r.Members) == 0 {
		return kproto.CodeName(r.ErrorCode)
	}
	var out []string
	for _, m := range r.Members {
		out = append(out, kproto.CodeName(m.ErrorCode))
	}
	return strings.Join(out, " ")
}

func showFetched(f FetchedOffsets) string {
	if f.Code != 0 {
		return kproto.CodeName(f.Code)
	}
	var out []string
	for _, t := range f.Topics {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprintf("%s:%d=%d", t.Name, p.Partition, p.Offset))
		}
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, " ")
}

func showDescribed(g kmsg.DescribeGroupsResponseGroup) string {
	out := strings.TrimSpace(fmt.Sprintf("%s %s %s", g.State, g.ProtocolType, g.Protocol))
	for _, m := range g.Members {
		out += fmt.Sprintf("\n  member %s%s of %s at %s", m.MemberID, showInstance(m.InstanceID), m.ClientID, m.ClientHost)
		if m.MemberAssignment != nil {
			out += " has " + showAssignment(m.MemberAssignment)
		}
	}
	return out
}

func showDeleted(r *kmsg.OffsetDeleteResponse) string {
	out := []string{kproto.CodeName(r.ErrorCode)}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprintf("%s:%d=%s", t.Topic, p.Partition, kproto.CodeName(p.ErrorCode)))
		}
	}
	return strings.Join(out, " ")
}

func showRecord(r machine.Record) string {
	switch binary.BigEndian.Uint16(r.Key) {
	case keyOffsetCommit:
		var k kmsg.OffsetCommitKey
		var v kmsg.OffsetCommitValue
		if k.ReadFrom(r.Key) != nil || r.Value != nil && v.ReadFrom(r.Value) != nil {
			return "unreadable"
		}
		if r.Value == nil {
			return fmt.Sprintf("offset %s %s:%d deleted", k.Group, k.Topic, k.Partition)
		}
		return fmt.Sprintf("offset %s %s:%d=%d", k.Group, k.Topic, k.Partition, v.Offset)
	case keyGroupMetadata:
		return showGroupRecord(r)
	}
	return showConsumerRecord(r)
}

func showGroupRecord(r machine.Record) string {
	var k kmsg.GroupMetadataKey
	var v kmsg.GroupMetadataValue
	if k.ReadFrom(r.Key) != nil || r.Value != nil && v.ReadFrom(r.Value) != nil {
		return "unreadable"
	}
	if r.Value == nil {
		return fmt.Sprintf("group %s deleted", k.Group)
	}
	out := fmt.Sprintf("group %s generation %d", k.Group, v.Generation)
	if len(v.Members) == 0 {
		return out + " without members"
	}
	for _, m := range v.Members {
		out += fmt.Sprintf(", %s has %s", m.MemberID, showAssignment(m.Assignment))
	}
	return out + ", led by " + *v.Leader
}
