package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ownNetwork is set in a process that has a network of its own.
const ownNetwork = "TENANTRY_CONFORMANCE_NETWORK"

// inOwnNetwork runs this program again in a network of its own, in which all cluster
// IPs are this machine, so that nothing of it is seen outside, and returns true; or
// returns false in the process that has one.
func inOwnNetwork(ctx context.Context) (bool, error) {
	if os.Getenv(ownNetwork) == "" {
		command := exec.CommandContext(ctx, "unshare", append([]string{"--map-root-user", "--net", os.Args[0]}, os.Args[1:]...)...)
		command.Env = append(os.Environ(), ownNetwork+"=yes")
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it has servers to end
		return true, command.Run()
	}
	for _, args := range []string{
		"link set lo up", "route add local 10.0.0.0/8 dev lo",
		// A server advertises the address of its default route.
		"link add node type veth peer name wire", "addr add 198.18.0.1/24 dev node", "link set node up", "link set wire up",
		"route add default via 198.18.0.2",
	} {
		if output, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return false, fmt.Errorf("preparing the network: ip %s: %w: %s", args, err, output)
		}
	}
	return false, nil
}
