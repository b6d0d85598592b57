package process

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/test/harness/sessions"
)

var _ = Describe("tenantry up in a network of its own", func() {
	// Without a route, as on a laptop without network and in the sandboxes of builds.
	DescribeTable("starts on a loopback address", func(flags ...string) {
		session := runAlone(append([]string{"up", "--dir", filepath.Join(GinkgoT().TempDir(), "state")}, flags...)...)
		Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
		Expect(string(session.Err.Contents())).To(BeEmpty())
		Eventually(session.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	},
		Entry("by default"),
		Entry("that is advertised", "--advertise-address", "127.0.0.1"),
		Entry("and advertises another", "--advertise-address", "192.0.2.1"),
		Entry("among all", "--bind-address", "0.0.0.0"),
	)

	It("says what is no address", func() {
		session := run("up", "--dir", filepath.Join(GinkgoT().TempDir(), "state"), "--secure-port", sessions.FreePort(), "--advertise-address", "here")
		Eventually(session, stopTimeout).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say(`--advertise-address: "here" is not an IP address`))
	})
})

// runAlone runs the binary in a network that has nothing but a loopback interface,
// and ends it with the spec.
func runAlone(args ...string) *gexec.Session {
	GinkgoHelper()
	started := make(chan *gexec.Session, 1)
	failed := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		runtime.LockOSThread() // for good: the thread ends with this function
		if err := leaveNetwork(); err != nil {
			failed <- err
			return
		}
		session, err := gexec.Start(exec.Command(binary, args...), GinkgoWriter, GinkgoWriter)
		if err != nil {
			failed <- err
			return
		}
		started <- session
	}()
	select {
	case session := <-started:
		DeferCleanup(func() { sessions.Kill(session) })
		return session
	case err := <-failed:
		if errors.Is(err, syscall.EPERM) {
			Skip("a network of its own takes the rights of root")
		}
		Expect(err).NotTo(HaveOccurred())
		return nil
	}
}

// leaveNetwork puts this thread and the processes that it starts into a new network.
func leaveNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}
