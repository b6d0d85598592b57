package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/tenantry/tenantry/test/docs"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	repository  = "../../.."
	pageTimeout = 3 * time.Minute
	// settleTimeout is how long a command that reads may take to show what the page
	// says: readers wait, too, until a controller has done its work.
	settleTimeout = 30 * time.Second
)

// cannotRun are blocks that are not run, by page and first line, with the reason.
var cannotRun = map[string]map[string]string{
	"README.md": {
		"make run     # everything in one process, with its state in .tenantry": "make test is all tests, this one among them",
		"kubectl apply -k config/default":                                       "needs a cluster; test/node does the same",
	},
	"docs/guides/backup-and-restore.md": {
		"tenantry up --etcd-listen-client-url unix:///run/tenantry/etcd.sock":        "needs a directory of root, for etcdctl",
		"etcdctl --endpoints unix:///run/tenantry/etcd.sock snapshot save backup.db": "needs etcdctl and etcdutl",
		"mkdir -m 700 restored && tar -xzf keys.tar.gz -C restored":                  "needs etcdutl",
	},
	"docs/guides/audit.md": {
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file audited.yaml":              "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system logs sample-0 | grep '\"kind\":\"Event\"'":                                     "needs a cluster; test/integration/operator runs such a server",
		"kubectl -n tenantry-system create secret generic audit-webhook --from-file=kubeconfig=webhook.kubeconfig": "needs a cluster",
	},
	"docs/guides/certificates.md": {
		`kubectl -n tenantry-system patch controlplane sample --type merge --patch '{"spec": {"serviceAccounts": {"keyRotation": "2027-01"}}}'`: "needs a cluster, and an hour; test/integration/operator rotates keys by a clock of its own",
	},
	"docs/guides/configure-a-control-plane.md": {
		"kubectl apply -f authorizers.yaml": "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file limited.yaml":  "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file confined.yaml": "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file placed.yaml":   "needs a cluster; test/integration/operator does what it says",
	},
	"docs/guides/connect-oidc.md": {
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file authenticated.yaml": "needs a cluster; test/integration/operator does what it says",
		"tenantry up --oidc-issuer-url https://id.example.com/realms/platform --oidc-client-id tenantry \\": "needs an identity provider at that URL",
	},
	"docs/guides/workloads-services.md": {
		"kubectl label namespace ingress-nginx tenantry.io/ingress-controller=true": "needs a cluster with a namespace of that name",
	},
	"docs/guides/debug-and-scale-pods.md": {
		"kubectl --kubeconfig acme.kubeconfig top pods --containers": "needs a cluster with metrics-server; test/node does the same",
	},
	"docs/guides/workloads.md": {
		"kubectl apply -k config/workloads": "needs a cluster; test/node does the same",
		"tenantry up --host-kubeconfig host.kubeconfig --workloads-image ghcr.io/tenantry/tenantry:v0.2.0": "needs a cluster; test/node does the same",
	},
	"docs/guides/workloads-of-a-control-plane.md": {
		"kubectl apply -k config/workloads": "needs a cluster; test/node does the same",
		`kubectl -n tenantry-system patch controlplane sample --type merge --patch '{"spec": {"workloads": {}}}'`:                               "needs a cluster; test/integration/operator does what it says",
		"kubectl delete namespaces -l workloads.tenantry.io/control-plane-namespace=tenantry-system,workloads.tenantry.io/control-plane=sample": "needs a cluster; test/node does the same",
	},
	"docs/guides/search.md": {
		"tenantry search --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt --etcd-certfile=etcd.crt --etcd-keyfile=etcd.key \\": "needs an etcd and a PostgreSQL elsewhere; test/integration/search runs such a service",
	},
	"docs/guides/install.md": {
		"docker build -t REGISTRY/tenantry . && docker push REGISTRY/tenantry":         "needs a registry and a cluster",
		"kubectl -n tenantry-system exec tenantry-0 -- /tenantry kubeconfig system \\": "needs a cluster",
		"kubectl create namespace tenantry-system":                                     "needs a cluster, and a server elsewhere",
	},
	"docs/guides/install-the-operator.md": {
		"kubectl apply -k config/default": "needs a cluster; test/node follows it, as all on the page but the last",
		"helm install tenantry charts/tenantry --namespace tenantry-system --create-namespace --take-ownership --wait": "needs a cluster",
		"kubectl apply -f config/operator/namespace.yaml":                                                              "needs a cluster",
		"kubectl delete -k config/default -l app.kubernetes.io/component=operator":                                     "needs a cluster",
		"helm uninstall tenantry --namespace tenantry-system --wait":                                                   "needs a cluster",
		"kubectl -n tenantry-system delete subscription.operators.coreos.com/tenantry operatorgroup/tenantry":          "needs a cluster",
		"ctr --namespace k8s.io images import dist/tenantry-image.tar":                                                 "needs containerd; test/node/node.sh imports the image so",
	},
	"docs/guides/keystone-login.md": {
		"tenantry kubeconfig acme-2b6f0258b165 --exec keystone -- --os-cloud acme --os-project-name web > acme.kubeconfig": "needs a Keystone; test/keystone follows it",
		"kubectl --kubeconfig acme.kubeconfig config set-context --current --namespace web-b5e0e0c7eecf":                   "needs a Keystone; test/keystone follows it",
		"openstack role remove --user jane --user-domain acme --project web --project-domain acme member":                  "needs a Keystone; test/keystone follows it",
		"tenantry credential keystone --os-cloud acme":                                                                     "needs a Keystone; test/keystone follows it",
	},
	"docs/guides/keystone.md": {
		"openstack user create --domain default --password-prompt tenantry": "needs a cloud; test/keystone follows it",
		"openstack domain create acme -f value -c id":                       "needs a cloud; test/keystone follows it",
		"kubectl apply -f sync.yaml":                                        "needs a Keystone; test/keystone follows it",
		"kubectl get keystonesync cloud -o jsonpath='{.status.removed}'":    "needs a Keystone; test/keystone follows it",
	},
	"docs/guides/monitoring.md": {
		"kubectl --kubeconfig acme.kubeconfig create configmap something":      "the status follows after a minute",
		"kubectl -n tenantry-system create secret generic tenantry-metrics \\": "needs a cluster",
	},
	"docs/guides/several-servers-on-a-cluster.md": {
		"kubectl -n tenantry-system create secret generic etcd-login \\": "needs a cluster, and an etcd with certificates; test/integration/operator runs what the operator makes there",
		"kubectl apply -f large.yaml":                                    "needs a cluster",
		"etcdctl put /control-planes/tenantry-system/large/tenantry.io/claim tenantry-system/large/9b44e7c2-5705-47d9-b72d-e07da222439a": "needs such an etcd",
	},
	"docs/guides/on-a-cluster-you-have.md": {
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file publishing.yaml":                                            "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system patch controlplane sample --type merge --patch-file exposed.yaml":                                               "needs a cluster; test/integration/operator does what it says",
		`kubectl -n tenantry-system get controlplane sample -o jsonpath='{.status.conditions[?(@.type=="Degraded")].message}'`:                      "needs a cluster; test/node and test/integration/operator do the same",
		"kubectl apply -f config/samples/controlplane.yaml":                                                                                         "needs a cluster",
		"kubectl -n tenantry-system annotate controlplane sample tenantry.io/adopt-old-token-keys=true":                                             "needs a cluster",
		"kubectl apply -f config/samples/host_tenant.yaml":                                                                                          "needs a cluster; test/integration/operator does what it says",
		"uid=$(kubectl get tenant initech -o jsonpath='{.metadata.uid}')":                                                                           "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system annotate controlplane sample tenantry.io/confirm-deletion=true":                                                 "needs a cluster; test/integration/operator and test/node do what it says",
		"kubectl annotate --overwrite tenant initech tenantry.io/abandon=true":                                                                      "needs a cluster; test/integration/operator does what it says",
		"kubectl -n tenantry-system port-forward service/sample 6443:443 &":                                                                         "needs a cluster",
		"kubectl -n team-a create rolebinding tenantry-operator --clusterrole tenantry-operator --serviceaccount tenantry-system:tenantry-operator": "needs a cluster",
	},
	"docs/guides/several-servers.md": {
		"tenantry server --etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.3:2379 \\": "needs an etcd cluster; test/integration/replicas runs such servers",
		"tenantry manager --kubeconfig admin.kubeconfig --health-probe-bind-address=:8081":                    "needs such a server",
		"tenantry kubeconfig acme --kubeconfig admin.kubeconfig > acme.kubeconfig":                            "needs such a server",
	},
}

// tour is what readers of a guide have done before: the beginning of the README.
const tour = `export KUBECONFIG=$PWD/.tenantry/admin.kubeconfig
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "acme"}}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "globex"}}'
kubectl wait --for=condition=Ready tenant/acme tenant/globex
tenantry kubeconfig acme > acme.kubeconfig
tenantry kubeconfig globex > globex.kubeconfig`

var _ = Describe("The pages", func() {
	kubectl := sync.OnceValues(func() (string, error) { return gexec.Build("k8s.io/kubernetes/cmd/kubectl") })
	pages, err := docs.Read(repository)
	if err != nil {
		panic(err)
	}
	for _, page := range pages {
		blocks := runnable(page)
		if len(blocks) == 0 {
			continue
		}
		It("show what "+page.Path+" makes of a server", func(ctx SpecContext) {
			client, err := kubectl()
			Expect(err).NotTo(HaveOccurred())
			for _, tool := range []string{"openssl", "tar"} {
				if _, err := exec.LookPath(tool); err != nil && uses(blocks, tool) {
					Skip(page.Path + " needs " + tool)
				}
			}
			r := newReader(ctx, client)
			if page.Path != "README.md" {
				r.serve(ctx, "tenantry up", nil)
				r.must(tour)
			}
			for _, block := range blocks {
				r.follow(ctx, page, block)
			}
		}, SpecTimeout(pageTimeout))
	}

	It("have the blocks that are not run", func() {
		for _, page := range pages {
			for _, block := range page.Blocks {
				if commands := block.Commands(); len(commands) > 0 {
					delete(cannotRun[page.Path], first(commands))
				}
			}
			if len(cannotRun[page.Path]) == 0 {
				delete(cannotRun, page.Path)
			}
		}
		Expect(cannotRun).To(BeEmpty(), "an exception of a block that is not on the page")
	})
})

// runnable returns the blocks of a page that a reader with a server can follow.
func runnable(page docs.Page) []docs.Block {
	var blocks []docs.Block
	console := false
	for _, block := range page.Blocks {
		if commands := block.Commands(); block.Language == docs.Console && cannotRun[page.Path][first(commands)] != "" {
			continue
		}
		console = console || block.Language == docs.Console
		blocks = append(blocks, block)
	}
	if !console {
		return nil
	}
	return blocks
}

// uses returns whether a command of the blocks is one of a tool.
func uses(blocks []docs.Block, tool string) bool {
	return slices.ContainsFunc(blocks, func(block docs.Block) bool {
		return slices.ContainsFunc(block.Commands(), func(command docs.Command) bool {
			return strings.HasPrefix(command.Text, tool+" ")
		})
	})
}

// first returns the first line of a block.
func first(commands []docs.Command) string {
	line, _, _ := strings.Cut(commands[0].Text, "\n")
	return line
}

// reader does what a page says, in a directory and a shell of its own.
type reader struct {
	dir, port string
	shell     io.Writer
	answers   *bufio.Scanner
	server    *gexec.Session
}

func newReader(ctx context.Context, kubectl string) *reader {
	GinkgoHelper()
	r := &reader{dir: GinkgoT().TempDir(), port: sessions.FreePort()}
	bin := filepath.Join(r.dir, "bin")
	Expect(os.Mkdir(bin, 0o700)).To(Succeed())
	Expect(os.Symlink(binary, filepath.Join(bin, "tenantry"))).To(Succeed())
	Expect(os.Symlink(kubectl, filepath.Join(bin, "kubectl"))).To(Succeed())

	shell := r.command(ctx, "bash")
	in, err := shell.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out, err := shell.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(shell.Start()).To(Succeed())
	DeferCleanup(func() {
		in.Close()
		_ = shell.Wait() // it may have been ended with the spec
	})
	r.shell, r.answers = in, bufio.NewScanner(out)
	r.answers.Buffer(nil, 16<<20)
	return r
}

// command returns a command that ends, with all that it has started, with the spec.
func (r *reader) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "HOME="+r.dir, "KUBECONFIG=")
	return cmd
}

var (
	starts = regexp.MustCompile(`^(?:make run|(?:bin/)?tenantry up\b.*)$`)
	// reads are commands that are asked again until they show what the page says.
	reads = regexp.MustCompile(`^kubectl\b.* (?:get|describe|can-i|status)\b`)
)

// follow runs the commands of a block and compares what they print. A block in YAML
// that begins with the name of a file is written there.
func (r *reader) follow(ctx context.Context, page docs.Page, block docs.Block) {
	GinkgoHelper()
	if name := block.File(); name != "" {
		Expect(os.WriteFile(filepath.Join(r.dir, name), []byte(r.localize(block.Text)), 0o600)).To(Succeed())
	}
	if block.Language != docs.Console {
		return
	}
	for _, command := range block.Commands() {
		By(fmt.Sprintf("%s:%d: %s", page.Path, command.Line, command.Text))
		want := strings.Join(command.Output, "\n")
		if starts.MatchString(command.Text) {
			r.serve(ctx, command.Text, command.Output)
			continue
		}
		attempt := func() error {
			got, status := r.run(r.localize(command.Text))
			if !docs.Matches(want, got) {
				return fmt.Errorf("%s:%d: %s\nprints\n%s\nand the page says\n%s", page.Path, command.Line, command.Text, got, want)
			}
			if command.Fails() == (status == 0) {
				return fmt.Errorf("%s:%d: %s ends with status %d", page.Path, command.Line, command.Text, status)
			}
			return nil
		}
		if reads.MatchString(command.Text) {
			Eventually(attempt).WithContext(ctx).WithTimeout(settleTimeout).Should(Succeed())
		} else {
			Expect(attempt()).To(Succeed())
		}
	}
}

// serve starts a server in the background, in place of an earlier one, on a free port
// and waits until it says what the page does. A line ^C ends it.
func (r *reader) serve(ctx context.Context, command string, output []string) {
	GinkgoHelper()
	r.interrupt()
	args := strings.TrimPrefix(strings.TrimPrefix(command, "bin/"), "tenantry up")
	if command == "make run" {
		args = ""
	}
	var err error
	r.server, err = gexec.Start(r.command(ctx, "bash", "-c", "exec bin/tenantry up --secure-port="+r.port+r.localize(args)), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(server *gexec.Session) { Eventually(server.Kill(), stopTimeout).Should(gexec.Exit()) }, r.server)
	Eventually(r.server.Out, startTimeout).Should(gbytes.Say("get namespaces\n"))
	end := false
	for i, line := range output {
		if line == "^C" {
			output, end = output[:i], true
		}
	}
	if command == "make run" && len(output) > 0 {
		Expect(output[0]).To(Equal("./bin/tenantry up"))
		output = output[1:]
	}
	if len(output) > 0 {
		got := strings.ReplaceAll(r.general(string(r.server.Out.Contents())), "bin/tenantry", "./bin/tenantry")
		Expect(docs.Matches(strings.Join(output, "\n"), got)).To(BeTrue(), got)
	}
	if end {
		r.interrupt()
	}
}

func (r *reader) interrupt() {
	GinkgoHelper()
	if r.server != nil {
		Eventually(r.server.Signal(syscall.SIGINT), stopTimeout).Should(gexec.Exit())
		r.server = nil
	}
}

// must runs what cannot fail.
func (r *reader) must(script string) {
	GinkgoHelper()
	out, status := r.run(script)
	Expect(status).To(BeZero(), out)
}

// run runs a command in the reader's shell and returns what it prints and its status.
func (r *reader) run(command string) (string, int) {
	GinkgoHelper()
	const done = "-- done --"
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	_, err := fmt.Fprintf(r.shell, "eval %s </dev/null 2>&1; printf '\\n%s %%d\\n' $?\n", quoted, done)
	Expect(err).NotTo(HaveOccurred())
	var lines []string
	for r.answers.Scan() {
		if status, found := strings.CutPrefix(r.answers.Text(), done+" "); found {
			code, err := strconv.Atoi(status)
			Expect(err).NotTo(HaveOccurred())
			return r.general(strings.Join(lines, "\n")), code
		}
		lines = append(lines, r.answers.Text())
	}
	Fail("the shell has ended: " + strings.Join(lines, "\n"))
	return "", 0
}

// localize puts the reader's port in place of that of the page, and general turns back
// what is the reader's alone.
func (r *reader) localize(text string) string {
	return strings.ReplaceAll(text, "127.0.0.1:6443", "127.0.0.1:"+r.port)
}

func (r *reader) general(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "127.0.0.1:"+r.port, "127.0.0.1:6443"), r.dir, "/home/me/tenantry")
}
