package operator

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/docs"
	"github.com/tenantry/tenantry/test/harness"
)

var (
	// writesOf is a command of a page that writes files, or the ControlPlane "sample", to a host.
	writesOf = regexp.MustCompile(`^kubectl (?:-n tenantry-system )?(?:apply|replace|create|label|patch) `)
	// namesFile is a file that a page has.
	namesFile = regexp.MustCompile(`[\w-]+\.yaml\b`)
)

// changesSample returns the commands of a block that changes the ControlPlane "sample", and none of other blocks. Files
// are those of the page.
func changesSample(block docs.Block, files map[string]string) []string {
	changes := false
	var commands []string
	for _, command := range block.Commands() {
		if !writesOf.MatchString(command.Text) {
			continue
		}
		commands = append(commands, command.Text)
		changes = changes || strings.Contains(command.Text, "patch controlplane sample ") || slices.ContainsFunc(namesFile.FindAllString(command.Text, -1), func(name string) bool {
			return strings.Contains(files[name], "kind: ControlPlane") && strings.Contains(files[name], "name: sample")
		})
	}
	if !changes {
		return nil
	}
	return commands
}

// hostShell is a shell of the administrator of the host, in a directory with the files of the pages.
type hostShell struct{ dir, path, kubeconfig string }

func newHostShell() hostShell {
	GinkgoHelper()
	kubectl, err := gexec.Build("k8s.io/kubernetes/cmd/kubectl")
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	kubeconfig, err := harness.WriteToken(cluster.Config, namespace, filepath.Join(dir, "kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	return hostShell{dir: dir, path: filepath.Dir(kubectl) + ":" + os.Getenv("PATH"), kubeconfig: kubeconfig}
}

func (h hostShell) write(name, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600)).To(Succeed())
}

func (h hostShell) run(ctx context.Context, command string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = h.dir, append(os.Environ(), "PATH="+h.path, "KUBECONFIG="+h.kubeconfig, "HOME="+h.dir)
	out, err := cmd.CombinedOutput()
	GinkgoWriter.Printf("$ %s\n%s\n", command, out)
	Expect(err).NotTo(HaveOccurred(), "%s: %s", command, out)
}

// fieldsOf adds the fields of a value to all, by their paths. Lists are one value each.
func fieldsOf(all map[string]any, path string, value any) {
	fields, is := value.(map[string]any)
	if !is {
		all[path] = value
		return
	}
	all[path] = "an object"
	for key, field := range fields {
		fieldsOf(all, path+"."+key, field)
	}
}

// specOf returns the fields of the spec of a ControlPlane.
func specOf(ctx context.Context, name string) map[string]any {
	GinkgoHelper()
	cp := &unstructured.Unstructured{}
	cp.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ControlPlane"))
	all := map[string]any{}
	fieldsOf(all, "spec", get(ctx, cp, name).Object["spec"])
	return all
}

var _ = Describe("What pages do with the ControlPlane sample", func() {
	It("adds to what it has, and takes nothing else away", func(ctx SpecContext) {
		pages, err := docs.Read("../../..")
		Expect(err).NotTo(HaveOccurred())
		shell := newHostShell()
		shell.write("webhook.kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"+
			"clusters: [{name: a, cluster: {server: 'https://audit.example.com'}}]\n")
		sample, err := os.ReadFile("../../../config/samples/controlplane.yaml")
		Expect(err).NotTo(HaveOccurred())
		shell.write("controlplane.yaml", string(sample))
		cp := newControlPlane("sample")
		cp.Spec.Workloads = &v1alpha1.ControlPlaneWorkloads{} // of what is made for it
		deleteAfter(cp)
		shell.run(ctx, "kubectl apply -f controlplane.yaml")
		setReady(ctx, cp.Name)

		changed := 0
		for _, page := range pages {
			files := map[string]string{}
			for _, block := range page.Blocks {
				if name := block.File(); name != "" {
					files[name] = block.Text
					shell.write(name, block.Text)
				}
				for _, command := range changesSample(block, files) {
					By(page.Path + ": " + command)
					before := specOf(ctx, cp.Name)
					shell.run(ctx, command)
					after := specOf(ctx, cp.Name)
					for path, value := range before {
						if path == "spec.expose.type" { // has a default, which a page changes
							value = after[path]
						}
						Expect(after).To(HaveKeyWithValue(path, value), "%s takes it away: %s", page.Path, command)
					}
					if strings.Contains(command, " controlplane ") {
						Expect(after).NotTo(Equal(before), command)
						changed++
					}
				}
				if len(changesSample(block, files)) > 0 {
					expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
				}
			}
		}
		Expect(changed).To(BeNumerically(">=", 11))
	}, NodeTimeout(startTimeout))
})
