// Package processors gives Go more processors, of those that run goroutines, than
// the machine has cores.
//
// Go looks at the network when one of its processors has nothing else to do, or
// every 10 milliseconds, and a goroutine keeps its processor for as long. With one
// for each core, whoever keeps all cores busy lets others wait for ten times what
// their requests take. With more than can be busy at a time there is always one that
// waits for the network, and the kernel takes a core for it from those that have had
// theirs for longer.
package processors

import (
	"os"
	"runtime"
)

// cores are those that the process may use, by its cgroup, too.
var cores = runtime.GOMAXPROCS(0)

// Cores returns how many cores this process could use when it began.
func Cores() int { return cores }

// Spare sets how many processors there are for each core, unless the environment says
// how many there are (GOMAXPROCS).
func Spare(perCore int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(perCore * cores)
	}
}
