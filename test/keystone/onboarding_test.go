//go:build keystone

package keystone

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/tenantry/tenantry/test/docs"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// binary builds the command tenantry and returns its path.
var binary = sync.OnceValues(func() (string, error) { return gexec.Build("github.com/tenantry/tenantry/cmd/tenantry") })

func TestMain(m *testing.M) {
	code := m.Run()
	gexec.CleanupBuildArtifacts()
	os.Exit(code)
}

// follower follows pages, in a cloud and with a server of its own.
type follower struct {
	dir, home string
	env       []string
	// own has, for what pages say, what it is here: ids, names and addresses.
	own    []string
	server *gexec.Session
}

func newFollower(path string) *follower {
	GinkgoHelper()
	r := &follower{dir: GinkgoT().TempDir(), home: GinkgoT().TempDir()}
	r.env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "HOME="+r.home, "XDG_CACHE_HOME="+filepath.Join(r.home, ".cache"),
		"KUBECONFIG="+filepath.Join(r.dir, ".tenantry", "admin.kubeconfig"))
	port := sessions.FreePort()
	r.say("https://keystone.example.com/v3", "http://"+strings.TrimPrefix(ks.url, "http://"))
	r.say("127.0.0.1:6443", "127.0.0.1:"+port)
	r.say("tenantry up", "tenantry up --secure-port "+port)
	return r
}

// say notes what something of the pages is here. What is longer comes first.
func (r *follower) say(there, here string) { r.own = append(r.own, there, here) }

func (r *follower) localize(text string) string {
	pairs := slices.Collect(slices.Chunk(r.own, 2))
	slices.SortStableFunc(pairs, func(a, b []string) int { return len(b[0]) - len(a[0]) })
	return strings.NewReplacer(slices.Concat(pairs...)...).Replace(text)
}

var (
	id      = regexp.MustCompile(`^[0-9a-f]{32}$`)
	prompts = regexp.MustCompile(`--password-prompt`)
	reads   = regexp.MustCompile(`^kubectl\b.* (?:get|can-i)\b`)
)

// run runs a command and returns what it prints, and whether it succeeds. Where it asks for a
// password, it is given that of the pages.
func (r *follower) run(ctx context.Context, command string) (string, bool) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	if prompts.MatchString(command) {
		cmd = exec.CommandContext(ctx, "script", "-qec", command, "/dev/null") // it needs a terminal
	}
	cmd.Dir, cmd.Env = r.dir, r.env
	in, err := cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out := gbytes.NewBuffer()
	cmd.Stdout, cmd.Stderr = out, out
	Expect(cmd.Start()).To(Succeed())
	if prompts.MatchString(command) {
		for range 2 {
			Eventually(out).Should(gbytes.Say("Password:"))
			_, err := fmt.Fprintln(in, r.localize("SECRET"))
			Expect(err).NotTo(HaveOccurred())
		}
	}
	err = cmd.Wait()
	return strings.TrimSpace(string(out.Contents())), err == nil
}

// follow does what a block of a page says, and compares.
func (r *follower) follow(ctx context.Context, page docs.Page, block docs.Block) {
	GinkgoHelper()
	if name := block.File(); name != "" {
		Expect(os.WriteFile(filepath.Join(r.dir, name), []byte(r.localize(block.Text)), 0o600)).To(Succeed())
	}
	for _, command := range block.Commands() {
		By(fmt.Sprintf("%s:%d: %s", page.Path, command.Line, command.Text))
		text := r.localize(command.Text)
		if strings.HasPrefix(text, "tenantry up ") {
			r.serve(text)
			continue
		}
		attempt := func() error {
			got, succeeds := r.run(ctx, text)
			if len(command.Output) == 1 && id.MatchString(command.Output[0]) && id.MatchString(got) {
				r.say(command.Output[0], got)
				r.say(command.Output[0][:12], got[:12])
			}
			want := r.localize(strings.Join(command.Output, "\n"))
			if !docs.Matches(want, got) || command.Fails() == succeeds {
				return fmt.Errorf("%s:%d: %s\nprints\n%s\nand the page says\n%s", page.Path, command.Line, text, got, want)
			}
			return nil
		}
		if reads.MatchString(text) {
			Eventually(attempt).WithContext(ctx).WithTimeout(90 * time.Second).WithPolling(time.Second).Should(Succeed())
		} else {
			Expect(attempt()).To(Succeed())
		}
	}
}

// serve starts a server in the background, and waits until it is ready.
func (r *follower) serve(command string) {
	GinkgoHelper()
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir, cmd.Env = r.dir, r.env
	var err error
	r.server, err = gexec.Start(cmd, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.stop)
	Eventually(r.server.Out).Should(gbytes.Say("Tenantry is ready at "))
}

func (r *follower) stop() {
	GinkgoHelper()
	Eventually(r.server.Signal(syscall.SIGTERM)).WithTimeout(time.Minute).Should(gexec.Exit())
}

// must runs what cannot fail.
func (r *follower) must(ctx context.Context, command string) string {
	GinkgoHelper()
	out, succeeds := r.run(ctx, r.localize(command))
	Expect(succeeds).To(BeTrue(), "%s: %s", command, out)
	return out
}

var _ = Describe("The guides", func() {
	It("lead from an empty cloud to pods, and back", func(ctx SpecContext) {
		path, err := binary()
		Expect(err).NotTo(HaveOccurred())
		for _, tool := range []string{"kubectl", "openstack", "script"} {
			if _, err := exec.LookPath(tool); err != nil {
				Skip(tool + " is not installed")
			}
		}
		r := newFollower(path)
		// The cloud is not quite empty: others test in it.
		r.say("acme", ks.name("acme"))
		r.say("SECRET", ks.newPassword())
		r.run(ctx, "openstack user delete tenantry") // of an earlier run

		guide := page("docs/guides/keystone.md")
		for _, block := range guide.Blocks {
			// What the page takes for granted.
			switch {
			case strings.Contains(block.Text, "{.status.removed}"):
				r.removeProject(ctx)
			case strings.Contains(block.Text, "patch tenants.tenantry.io globex"):
				globex := ks.create("domain", ks.name("globex"), nil)
				r.say("7fd3a1c95e1b4a0db6c2f80e4d91ab56", globex)
				r.say("e0421bd96c7f4f32a5d8c36b1f90ea27", ks.create("project", "web", object{"domain_id": globex}))
				r.must(ctx, `kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "globex"}}' &&
					kubectl wait --for=condition=Ready tenant/globex && tenantry kubeconfig globex > globex.kubeconfig`)
			}
			r.follow(ctx, guide, block)
		}

		By("logging in as a user")
		administrators := r.dir
		r.dir = GinkgoT().TempDir()
		Expect(os.Symlink(filepath.Join(administrators, ".tenantry"), filepath.Join(r.dir, ".tenantry"))).To(Succeed())
		login := page("docs/guides/keystone-login.md")
		for _, block := range login.Blocks {
			r.follow(ctx, login, block)
		}
		r.stop()
		left := files(filepath.Join(administrators, ".tenantry"))
		left["output"] = append(r.server.Out.Contents(), r.server.Err.Contents()...)
		searchForSecrets(left)
	}, SpecTimeout(8*time.Minute))
})

// removeProject makes a project that is half of all, and deletes it when it is synchronised.
func (r *follower) removeProject(ctx context.Context) {
	GinkgoHelper()
	const runs = `kubectl patch keystonesync cloud --type merge -p '{"spec": {"interval": "%ds"}}'`
	status := func(field string) func() string {
		return func() string { return r.must(ctx, "kubectl get keystonesync cloud -o jsonpath='{.status."+field+"}'") }
	}
	r.must(ctx, "openstack project create --domain acme old")
	r.must(ctx, fmt.Sprintf(runs, 10))
	Eventually(status("projects")).Should(Equal("2"))
	r.must(ctx, "openstack project delete --domain acme old")
	Eventually(status("removed.token")).ShouldNot(BeEmpty())
	r.say("8c1f5a0e9d3b7264", status("removed.token")())
}

// page returns one of the project's pages.
func page(path string) docs.Page {
	GinkgoHelper()
	pages, err := docs.Read("../..")
	Expect(err).NotTo(HaveOccurred())
	for _, p := range pages {
		if p.Path == path {
			return p
		}
	}
	Fail("there is no " + path)
	return docs.Page{}
}
