package memory

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/prometheus/procfs"
)

// Available returns how much memory the process may use, in bytes: what GOMEMLIMIT says, what Go keeps to in its
// container, or what the machine has, whichever is the least. It returns 0 if nothing says so.
func Available() int64 {
	limits := []int64{containerLimit(os.ReadFile(containerFile)) / 8 * 7, machine()}
	if os.Getenv("GOMEMLIMIT") != "" {
		limits = append(limits, debug.SetMemoryLimit(-1)) // which changes nothing
	}
	return leastOf(limits)
}

// leastOf returns the least of some limits, of which 0 and the largest number are none.
func leastOf(limits []int64) int64 {
	least := int64(math.MaxInt64)
	for _, limit := range limits {
		if limit > 0 {
			least = min(least, limit)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// machine returns how much memory there is, 0 if that is not known.
func machine() int64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	info, err := proc.Meminfo()
	if err != nil || info.MemTotalBytes == nil {
		return 0
	}
	return int64(*info.MemTotalBytes)
}
