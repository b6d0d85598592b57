// Package files says how many files the process may have open at once, of which each connection is one.
package files

import "syscall"

// most is what counts as no limit, and usual what there is if the system does not say.
const most, usual = 1_000_000, 64 << 10

// Most returns how many files the process may have.
func Most() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return usual
	}
	return int(min(limit.Cur, most))
}
