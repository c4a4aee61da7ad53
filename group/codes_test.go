package group

import (
	"strings"
	"testing"
)

// Who and what each scene below begins with.
const (
	sceneStable = `
		join g a static=A
		sync g a a=t:0,1`
	scenePreparing = sceneStable + `
		join g b
		join g b`
	sceneCompleting = scenePreparing + `
		join g a`
	sceneEmpty = sceneStable + `
		commit g a t:0=1
		leave g a`
)

// TestCodes gives each error code that a client may get, for each request that may get it.
func TestCodes(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for _, c := range []struct{ name, scene, command, want string }{
		{"join without a group id", "", "join  a", "INVALID_GROUP_ID"},
		{"join with a group id that is too long", "", "join " + long + " a", "INVALID_GROUP_ID"},
		{"join with a session that is too short", "", "join g a session=5999ms", "INVALID_SESSION_TIMEOUT"},
		{"join with a session that is too long", "", "join g a session=1801s", "INVALID_SESSION_TIMEOUT"},
		{"join with the shortest session", "", "join g a session=6s", "MEMBER_ID_REQUIRED a-1"},
		{"join with the longest session", "", "join g a session=1800s", "MEMBER_ID_REQUIRED a-1"},
		{"join without an id, v4", "", "join g a v=4", "MEMBER_ID_REQUIRED a-1"},
		{"join without an id, v3", "", "join g a v=3", "a-1 in generation 1 of range, led by a-1\n  member a-1 of t"},
		{"join with an id and no group", "", "join g a id=x", "UNKNOWN_MEMBER_ID"},
		{"join with an id that is nobody's", sceneStable, "join g x id=x", "UNKNOWN_MEMBER_ID"},
		{"join an empty group with an id", sceneEmpty, "join g x id=a-1", "UNKNOWN_MEMBER_ID"},
		{"join with an instance id that is nobody's", sceneStable, "join g x static=X id=a-1", "UNKNOWN_MEMBER_ID"},
		{"join under an id that was replaced", sceneStable + "\njoin g b static=A", "join g a", "FENCED_INSTANCE_ID"},
		{"join as another type", sceneStable, "join g b type=connect", "INCONSISTENT_GROUP_PROTOCOL"},
		{"join without a type", "", "join g b type=", "INCONSISTENT_GROUP_PROTOCOL"},
		{"join with no common protocol", sceneStable, "join g b protocols=sticky", "INCONSISTENT_GROUP_PROTOCOL"},
		{"join again with no common protocol", sceneCompleting, "join g b protocols=sticky", "INCONSISTENT_GROUP_PROTOCOL"},
		{"join with a protocol twice", "", "join g b protocols=range,range", "INVALID_REQUEST"},
		{"join with an instance id that is too long", "", "join g b static=" + long, "INVALID_REQUEST"},
		{"join with a type that is too long", "", "join g b type=" + long, "INVALID_REQUEST"},
		{"join with a protocol name that is too long", "", "join g b protocols=" + long, "INVALID_REQUEST"},
		{"join with too many protocols", "", "join g b protocols=" + strings.Repeat("p,", maxProtocols) + "q", "INVALID_REQUEST"},
		{"join with too much metadata", "", "join g b topics=" + strings.Repeat(long+",", 70), "INVALID_REQUEST"},
		{"join a full group", "set max-size=1" + sceneStable, "join g b", "GROUP_MAX_SIZE_REACHED"},
		{"join a full group, static", "set max-size=1" + sceneStable, "join g b static=B", "GROUP_MAX_SIZE_REACHED"},
		{"join a full rebalance", "set max-size=1" + scenePreparing, "join g b", "GROUP_MAX_SIZE_REACHED"},

		{"sync without a group id", "", "sync  a", "INVALID_GROUP_ID"},
		{"sync without a group", "", "sync g a", "UNKNOWN_MEMBER_ID"},
		{"sync with an empty group", sceneEmpty, "sync g a", "UNKNOWN_MEMBER_ID"},
		{"sync of nobody", sceneStable, "sync g x", "UNKNOWN_MEMBER_ID"},
		{"sync of a replaced member", sceneStable + "\njoin g b static=A", "sync g a", "FENCED_INSTANCE_ID"},
		{"sync of an old generation", sceneStable, "sync g a generation=0", "ILLEGAL_GENERATION"},
		{"sync of a future generation", sceneStable, "sync g a generation=2", "ILLEGAL_GENERATION"},
		{"sync of an old generation in a rebalance", scenePreparing, "sync g a generation=0", "ILLEGAL_GENERATION"},
		{"sync in a rebalance", scenePreparing, "sync g a", "REBALANCE_IN_PROGRESS"},
		{"sync with another protocol", sceneStable, "sync g a protocol=sticky", "INCONSISTENT_GROUP_PROTOCOL"},
		{"sync with another type", sceneStable, "sync g a type=connect", "INCONSISTENT_GROUP_PROTOCOL"},
		{"sync of who was forgotten", sceneCompleting + "\nsync g a a=t:0", "sync g b", "nothing"},
		{"sync that names strangers", sceneCompleting, "sync g a a=t:0 stranger=t:1", "t:0"},

		{"heartbeat without a group id", "", "heartbeat  a", "INVALID_GROUP_ID"},
		{"heartbeat without a group", "", "heartbeat g a", "UNKNOWN_MEMBER_ID"},
		{"heartbeat of an empty group", sceneEmpty, "heartbeat g a", "UNKNOWN_MEMBER_ID"},
		{"heartbeat of nobody", sceneStable, "heartbeat g x", "UNKNOWN_MEMBER_ID"},
		{"heartbeat of a replaced member", sceneStable + "\njoin g b static=A", "heartbeat g a", "FENCED_INSTANCE_ID"},
		{"heartbeat of an old generation", sceneStable, "heartbeat g a generation=0", "ILLEGAL_GENERATION"},
		{"heartbeat in a rebalance", scenePreparing, "heartbeat g a", "REBALANCE_IN_PROGRESS"},
		{"heartbeat before the assignment", sceneCompleting, "heartbeat g b", "NONE"},
		{"heartbeat", sceneStable, "heartbeat g a", "NONE"},

		{"leave without a group id", "", "leave  a", "INVALID_GROUP_ID"},
		{"leave without a group", "", "leave g a b", "UNKNOWN_MEMBER_ID UNKNOWN_MEMBER_ID"},
		{"leave without a group, v2", "", "leave-old g a", "UNKNOWN_MEMBER_ID"},
		{"leave of nobody", sceneStable, "leave g x", "UNKNOWN_MEMBER_ID"},
		{"leave, v2", sceneStable, "leave-old g a", "NONE"},
		{"leave of a replaced member", sceneStable + "\njoin g b static=A", "leave g a", "FENCED_INSTANCE_ID"},
		{"leave twice", sceneStable, "leave g a a", "NONE UNKNOWN_MEMBER_ID"},
		{"leave of an id that was given out", "join g a", "leave g a", "NONE"},
		{"leave of an instance", sceneStable, "leave g instance/A instance/B", "NONE UNKNOWN_MEMBER_ID"},

		{"commit of a member", sceneStable, "commit g a t:0=5 t:1=6", "NONE NONE"},
		{"commit in a rebalance", scenePreparing, "commit g a t:0=5", "NONE"},
		{"commit before the assignment", sceneCompleting, "commit g a t:0=5", "REBALANCE_IN_PROGRESS"},
		{"commit of an old generation", sceneStable, "commit g a generation=0 t:0=5", "ILLEGAL_GENERATION"},
		{"commit of a future generation", sceneStable, "commit g a generation=2 t:0=5", "ILLEGAL_GENERATION"},
		{"commit without generation", sceneStable, "commit g a generation=-1 t:0=5", "ILLEGAL_GENERATION"},
		{"commit of nobody", sceneStable, "commit g x generation=1 t:0=5", "UNKNOWN_MEMBER_ID"},
		{"commit of a replaced member", sceneStable + "\njoin g b static=A", "commit g a t:0=5", "FENCED_INSTANCE_ID"},
		{"commit of an outsider", sceneStable, "commit g - t:0=5", "UNKNOWN_MEMBER_ID"},
		{"commit of an outsider to an empty group", sceneEmpty, "commit g - t:0=5", "NONE"},
		{"commit of a former member to an empty group", sceneEmpty, "commit g a generation=1 t:0=5", "UNKNOWN_MEMBER_ID"},
		{"commit to a group that does not exist, v9", "", "commit g a generation=1 t:0=5", "GROUP_ID_NOT_FOUND"},
		{"commit to a group that does not exist, v8", "", "commit g a v=8 generation=1 t:0=5", "ILLEGAL_GENERATION"},
		{"commit to the group of no name", "", "commit  - t:0=5", "NONE"},
		{"commit to a group id that is too long", "", "commit " + long + " - t:0=5", "INVALID_GROUP_ID"},
		{"commit with the longest metadata", "", "commit g - metadata=4096 t:0=5", "NONE"},
		{"commit with more metadata", "", "commit g - metadata=4097 t:0=5", "OFFSET_METADATA_TOO_LARGE"},
		{"commit of no offset", "", "commit g - t:0=-1", "NONE"},
		{"commit of a negative offset", "", "commit g - t:0=-2 t:1=3", "INVALID_REQUEST NONE"},

		{"delete without a group", "", "delete g", "GROUP_ID_NOT_FOUND"},
		{"delete without a name", "", "delete", "GROUP_ID_NOT_FOUND"},
		{"delete a stable group", sceneStable, "delete g", "NON_EMPTY_GROUP"},
		{"delete a group in a rebalance", scenePreparing, "delete g", "NON_EMPTY_GROUP"},
		{"delete a group before its assignment", sceneCompleting, "delete g", "NON_EMPTY_GROUP"},
		{"delete an empty group", sceneEmpty, "delete g", "NONE"},
		{"delete a group of an id that was given out", "join g a", "delete g", "NONE"},

		{"delete offsets without a group", "", "delete-offsets g t:0", "GROUP_ID_NOT_FOUND"},
		{"delete offsets of a topic in use", sceneStable, "delete-offsets g t:0", "NONE t:0=GROUP_SUBSCRIBED_TO_TOPIC"},
		{"delete offsets of another topic", sceneStable, "delete-offsets g u:0", "NONE u:0=NONE"},
		{"delete offsets of an empty group", sceneEmpty, "delete-offsets g t:0,1", "NONE t:0=NONE t:1=NONE"},
		{"delete offsets of a group that is not of consumers", "join g a v=3 type=connect", "delete-offsets g t:0", "NON_EMPTY_GROUP"},

		{"describe without a group", "", "describe g", "Dead"},
		{"fetch without a group", "", "fetch g t:0", "t:0=-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			for line := range strings.SplitSeq(c.scene, "\n") {
				s.Command(strings.TrimSpace(line))
			}
			s.lines = nil
			s.Command(c.command)
			checkMachine(t, s.m)
			if got := s.answer(c.command); got != c.want {
				t.Errorf("%s: %s, want %s", c.command, got, c.want)
			}
		})
	}
}

// answer finds the reply to a command among what was said.
func (s *stage) answer(command string) string {
	for _, line := range s.lines {
		if reply, ok := strings.CutPrefix(line, command+": "); ok {
			return reply
		}
	}
	return ""
}
