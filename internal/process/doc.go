// Package process tunes the Go runtime of the process: processors and garbage collection.
package process
