// Package crashtest cuts the power of a program under test at each of its operations on
// a vfs.Mem, and shows the caller what the disk may hold afterwards.
//
// A Sweep watches one run. Before each mutating operation it takes down what was promised
// so far, makes the images of a power cut at this moment, and has each one checked. The
// promises are taken down before the image, so an image may know more than they do and
// never less.
//
// Process gives the other death: kill -9, after which the disk goes on with all that was
// written, synced or not.
package crashtest
