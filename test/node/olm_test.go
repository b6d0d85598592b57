//go:build node

package node

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

const catalogAddress = "127.0.0.1:50051"

// olm is the Operator Lifecycle Manager beside the node: its two operators, and a catalog.
type olm struct {
	bin, dir string
	catalog  *gexec.Session
	offered  int
}

// startOLM runs OLM until the container ends.
func startOLM() *olm {
	GinkgoHelper()
	opm, err := exec.LookPath("opm")
	Expect(err).NotTo(HaveOccurred())
	o := &olm{bin: filepath.Dir(opm), dir: GinkgoT().TempDir()}
	must("apply", "--server-side", "-f", filepath.Join(o.bin, "crds"))
	Eventually(func() error { // kubectl fails at a definition that has no status yet
		_, err := kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=1m")
		return err
	}).Should(Succeed())
	apply(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}}`)
	certs := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "certs")
	o.start([]string{"OPERATOR_NAMESPACE=olm", "OPERATOR_NAME=olm-operator"}, "olm", "--namespace", "olm", "--writeStatusName", "")
	// With TLS it listens at another port than the former.
	o.start(nil, "catalog", "--namespace", "olm", "--tls-cert", filepath.Join(certs, "apiserver.crt"),
		"--tls-key", filepath.Join(certs, "apiserver.key"), "--client-ca", filepath.Join(certs, "apiserver.crt"))
	return o
}

// start runs a program of OLM until the container ends, with its log in a file.
func (o *olm) start(env []string, name string, args ...string) *gexec.Session {
	GinkgoHelper()
	log, err := os.Create(filepath.Join(o.dir, name+".log"))
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(o.bin, name), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = o.dir
	session, err := gexec.Start(cmd, log, log)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Eventually(session.Kill()).Should(gexec.Exit())
		if CurrentSpecReport().Failed() {
			content, _ := os.ReadFile(log.Name())
			GinkgoWriter.Printf("%s says at the end\n%s\n", name, content[max(0, len(content)-4000):])
		}
		_ = log.Close()
	})
	return session
}

// offer serves a catalog whose only channel has bundles, the latest last, in place of an
// earlier one.
func (o *olm) offer(bundles ...string) {
	GinkgoHelper()
	o.offered++
	dir := filepath.Join(o.dir, fmt.Sprintf("catalog%d", o.offered))
	Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	entries := ""
	before := ""
	for i, bundle := range bundles {
		rendered := command(filepath.Join(o.bin, "opm"), "render", bundle, "-o", "yaml")
		Expect(os.WriteFile(filepath.Join(dir, fmt.Sprintf("bundle%d.yaml", i)), []byte(rendered), 0o600)).To(Succeed())
		name := ""
		for line := range strings.Lines(rendered) {
			if is, found := strings.CutPrefix(line, "name: "); found {
				name = strings.TrimSpace(is)
			}
		}
		Expect(name).NotTo(BeEmpty())
		entries += "- name: " + name + "\n"
		if before != "" {
			entries += "  replaces: " + before + "\n"
		}
		before = name
	}
	Expect(os.WriteFile(filepath.Join(dir, "package.yaml"), []byte(`schema: olm.package
name: tenantry
defaultChannel: candidate
---
schema: olm.channel
package: tenantry
name: candidate
entries:
`+entries), 0o600)).To(Succeed())
	command(filepath.Join(o.bin, "opm"), "validate", dir)
	if o.catalog != nil {
		Eventually(o.catalog.Signal(syscall.SIGTERM)).Should(gexec.Exit())
	}
	_, port, _ := net.SplitHostPort(catalogAddress)
	o.catalog = o.start(nil, "opm", "serve", dir, "--port", port, "--termination-log", "/dev/null")
}

// bundleOf returns a directory with a bundle. If a version is given, it is the one that
// comes after the bundle's own.
func bundleOf(dir, before, version string) string {
	GinkgoHelper()
	from := filepath.Join(root, dir)
	absolute, err := filepath.Abs(from)
	Expect(err).NotTo(HaveOccurred())
	if version == "" {
		return absolute
	}
	to := GinkgoT().TempDir()
	Expect(os.CopyFS(to, os.DirFS(absolute))).To(Succeed())
	file := filepath.Join(to, "manifests", "tenantry.clusterserviceversion.yaml")
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var lines []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "  replaces: ") {
			line = "  replaces: tenantry.v" + before + "\n"
		} else {
			line = strings.ReplaceAll(line, before, version)
		}
		lines = append(lines, line)
	}
	Expect(os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600)).To(Succeed())
	return to
}
