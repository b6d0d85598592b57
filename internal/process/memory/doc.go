// Package memory returns unused memory to the operating system when the process is idle,
// and collects garbage less often while it is busy. It knows how much there is, and how much
// values take.
package memory
