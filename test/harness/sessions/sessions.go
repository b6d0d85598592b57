package sessions

import (
	"os/exec"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/tenantry/tenantry/test/harness"
)

const (
	// StartTimeout is what a program gets to start, and StopTimeout what a pod gets to end.
	StartTimeout, StopTimeout = 2 * time.Minute, 30 * time.Second
)

// Tenantry builds the binary, which is there until the node ends that asks for it.
func Tenantry() string {
	GinkgoHelper()
	binary, err := gexec.Build("github.com/tenantry/tenantry/cmd/tenantry")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
	return binary
}

// Run starts a program, which does not end by itself.
func Run(program string, args ...string) *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(program, args...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return session
}

// Kill ends programs at once.
func Kill(sessions ...*gexec.Session) {
	GinkgoHelper()
	for _, session := range sessions {
		Eventually(session.Kill(), StopTimeout).Should(gexec.Exit())
	}
}

// End asks a program to end, and expects that it does so without an error.
func End(session *gexec.Session) {
	GinkgoHelper()
	Eventually(session.Signal(syscall.SIGTERM), StopTimeout).Should(gexec.Exit(0))
}

// FreePort returns a port of this machine that nobody listens at.
func FreePort() string {
	GinkgoHelper()
	port, err := harness.FreePort()
	Expect(err).NotTo(HaveOccurred())
	return strconv.Itoa(port)
}
