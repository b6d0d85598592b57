// Command pause is the first process of a pod: it keeps the pod's namespaces open, and reaps
// the orphans that land in them. Tests run it as a container, too: it prints its arguments first and, if the first
// one is -say, ends then.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if args := os.Args[1:]; len(args) > 0 {
		said := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-say" })
		fmt.Println(strings.Join(said, " "))
		if args[0] == "-say" {
			return
		}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-orphans:
			for reaped := 1; reaped > 0; {
				reaped, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
