package vfs

// Space is the room on the disk that holds a file, in bytes. Zeros: the file system does not know.
type Space struct {
	Total  int64
	Usable int64 // by this process, as far as its user's rights go
}
