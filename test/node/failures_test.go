//go:build node

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// podState is what of a pod another start changes.
const podState = "jsonpath={.metadata.uid} {.status.containerStatuses[*].restartCount}"

// podStates is podState of many, a line each.
const podStates = `jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`

// away is for how long the API of the host is away: a minute, unless HOST_AWAY says otherwise.
func away() time.Duration {
	GinkgoHelper()
	said := os.Getenv("HOST_AWAY")
	if said == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(said)
	Expect(err).NotTo(HaveOccurred(), "HOST_AWAY")
	return d
}

// closeAPI takes the API of the host away from all, whose connections end, until the function is called that it returns.
func closeAPI() (open func()) {
	GinkgoHelper()
	command("nft", "add", "table", "inet", "away")
	open = func() { _, _ = run("nft", "delete", "table", "inet", "away") }
	DeferCleanup(open)
	command("nft", "add", "chain", "inet", "away", "input", "{ type filter hook input priority 0; }")
	command("nft", "add", "rule", "inet", "away", "input", "tcp", "dport", "6443", "reject", "with", "tcp", "reset")
	return open
}

// filler fills the file system of the neighbour's volume, and empties it again.
func filler() (fill, free func()) {
	path := filepath.Join(os.Getenv("SMALL"), "filler")
	free = func() { _ = os.Remove(path) }
	return func() {
		GinkgoHelper()
		DeferCleanup(free)
		file, err := os.Create(path)
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		_, err = io.Copy(file, zeros{})
		Expect(errors.Is(err, syscall.ENOSPC)).To(BeTrue(), "filling %s: %v", path, err)
	}, free
}

// zeros is as much as is read of it.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// writeUntilRefused creates ConfigMaps until one fails, and returns the names of those that were acknowledged.
func writeUntilRefused(config []string) (acknowledged []string) {
	GinkgoHelper()
	value := filepath.Join(GinkgoT().TempDir(), "value")
	Expect(os.WriteFile(value, bytes.Repeat([]byte{'x'}, 400<<10), 0o600)).To(Succeed())
	for i := range 1000 {
		name := fmt.Sprintf("full-%d", i)
		if _, err := kubectl(append(config, "create", "configmap", name, "--from-file", value, "--request-timeout=30s")...); err != nil {
			return acknowledged
		}
		acknowledged = append(acknowledged, "configmap/"+name)
	}
	Fail("the disk does not become full")
	return nil
}
