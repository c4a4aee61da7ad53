//go:build !linux

package vfs

import "errors"

func (Disk) Space(string) (Space, error) { return Space{}, nil }

func (f diskFile) Allocate(int64) error { return errors.ErrUnsupported }
