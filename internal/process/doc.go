// Package process has what concerns the process as a whole: how it uses cores and memory.
package process
