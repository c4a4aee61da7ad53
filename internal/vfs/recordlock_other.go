//go:build !linux

package vfs

func lockRecords(File) error           { return nil }
func recordsLocked(File) (bool, error) { return false, nil }
