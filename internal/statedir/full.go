package statedir

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Explain says of an error that comes from a disk without space which disk that is, and
// what to do. It returns any other as it is.
func Explain(path string, err error) error {
	if !IsFull(err) {
		return err
	}
	return fmt.Errorf("the disk of %s is full: %w; free some space and start again, what was acknowledged is kept", path, err)
}

// IsFull reports whether err comes from a disk, or a share of one, without space. Not all
// of etcd wraps the errors that it gets.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, cause) || strings.Contains(err.Error(), cause.Error()) {
			return true
		}
	}
	return false
}
