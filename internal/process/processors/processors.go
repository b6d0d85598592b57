package processors

import (
	"os"
	"runtime"
)

// cores are those that the process may use, also by its cgroup.
var cores = runtime.GOMAXPROCS(0)

// Cores returns how many cores this process could use when it began.
func Cores() int { return cores }

// Spare sets how many processors there are for each core, unless the environment says
// how many there are (GOMAXPROCS). One for each is Go's own number, which follows changes
// of the cgroup as long as nobody sets it.
func Spare(perCore int) {
	if perCore > 1 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(perCore * cores)
	}
}
