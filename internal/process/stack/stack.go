package stack

import (
	"bytes"
	"runtime"
	"strings"
)

// Goroutine returns what the runtime calls the calling goroutine in traces, such as "goroutine 42". A number is
// never used again.
func Goroutine() string {
	var trace [64]byte
	name, _, _ := bytes.Cut(trace[:runtime.Stack(trace[:], false)], []byte(" ["))
	return string(name)
}

// Requeues reports whether the caller works for AddRateLimited, by which a worker has an item of a queue tried again
// after a failure: nothing else tells that of an item that comes later.
func Requeues() bool {
	return called(8, func(name string) bool { return strings.HasSuffix(name, ").AddRateLimited") })
}

// Within reports whether the caller works for a function whose name, with the path of its package, begins with a
// prefix.
func Within(prefix string) bool {
	return called(32, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// called reports whether one of so many functions on the stack, 32 at most, from who has called what asks, is one.
func called(most int, is func(name string) bool) bool {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:most])])
	for {
		frame, more := frames.Next()
		if is(frame.Function) {
			return true
		}
		if !more {
			return false
		}
	}
}
