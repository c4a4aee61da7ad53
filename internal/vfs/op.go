package vfs

import (
	"fmt"
	"math/bits"
	"os"
)

// Kind names an operation on a FS or File. Kinds are bits, so that a Fault can match
// and an Injector can count several at once.
type Kind uint16

const (
	OpOpen     Kind = 1 << iota // OpenFile of an existing file
	OpCreate                    // OpenFile with O_CREATE or O_TRUNC
	OpRead                      // File.ReadAt
	OpWrite                     // File.WriteAt
	OpTruncate                  // File.Truncate
	OpSync                      // File.Sync
	OpSyncDir                   // FS.SyncDir
	OpRename                    // FS.Rename
	OpRemove                    // FS.Remove
	OpMkdir                     // FS.Mkdir
	OpReadDir                   // FS.ReadDir
	OpStat                      // FS.Stat and File.Size
	OpLock                      // FS.Lock
	opEnd

	// OpAny is every kind.
	OpAny = opEnd - 1
	// OpMutating is every kind that changes the disk or what of it is durable.
	OpMutating = OpCreate | OpWrite | OpTruncate | OpSync | OpSyncDir | OpRename | OpRemove | OpMkdir | OpLock
)

var kindNames = [...]string{"open", "create", "read", "write", "truncate", "sync", "syncdir",
	"rename", "remove", "mkdir", "readdir", "stat", "lock"}

// String is the name of a single kind, or a number for a set of them.
func (k Kind) String() string {
	if bits.OnesCount16(uint16(k)) == 1 && k < opEnd {
		return kindNames[bits.TrailingZeros16(uint16(k))]
	}
	return fmt.Sprintf("Kind(%#x)", uint16(k))
}

// openKind tells a creating OpenFile from one that changes nothing.
func openKind(flag int) Kind {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		return OpCreate
	}
	return OpOpen
}
